/** One answer to several questions of one tool: exactly to those that are shown. */

import { part, post } from '../api.mjs';
import { html, useState } from '../view.mjs';
import { Dialog } from './dialog.mjs';
import { Text } from './text.mjs';

/** @param {{tickets: any[], onClose: () => void}} props */
export function Alike({ tickets, onClose }) {
  const [shown] = useState(tickets);
  const [told, setTold] = useState(/** @type {Record<string, string>} */ ({}));
  const [isSending, setIsSending] = useState(false);
  const isDone = Object.keys(told).length === shown.length;
  const decide = async (/** @type {'approve' | 'deny'} */ action) => {
    setIsSending(true);
    for (const ticket of shown) {
      const answer = { ticket: ticket.key, action, digest: ticket.digest };
      const word = await post(`/v1/runs/${part(ticket.run_id)}/decisions`, [answer]).then(
        () => (action === 'approve' ? 'approved' : 'denied'),
        (error) => `refused: ${error.message}`,
      );
      setTold((before) => ({ ...before, [ticket.key]: word }));
    }
    setIsSending(false);
  };
  return html`<${Dialog} title=${`${shown.length} questions of ${shown[0].tool_name}`} onClose=${onClose}>
    <table><thead><tr><th>arguments</th><th>thread</th><th>answer</th></tr></thead>
      <tbody>${shown.map((ticket) => html`<tr key=${ticket.key}>
        <td><code><${Text} of=${JSON.stringify(ticket.arguments)} /></code></td><td><${Text} of=${ticket.thread_id} /></td>
        <td role="status"><${Text} of=${told[ticket.key] ?? ''} /></td></tr>`)}</tbody></table>
    <form method="dialog" class="acts"><button>Close</button>
      ${!isDone && html`<button type="button" class="no" disabled=${isSending} onClick=${() => decide('deny')}>Deny all ${shown.length}</button>
        <button type="button" class="yes" disabled=${isSending} onClick=${() => decide('approve')}>Approve all ${shown.length}</button>`}
    </form></${Dialog}>`;
}
