/** Cancelling a run: it asks once, then shows the receipt. */

import { part, post } from '../api.mjs';
import { html, useState } from '../view.mjs';
import { Dialog } from './dialog.mjs';
import { Failed, Loading } from './faces.mjs';
import { Shape, Text } from './text.mjs';

const WAIT = 10;
const MOST = 12;
const ORDER = ['unknown', 'stopped', 'finished'];
/** @type {Record<string, string>} */
const SHAPES = { unknown: 'unknown', stopped: 'cancelled', finished: 'done' };

/** @param {{run: any, reach?: {kind: string, name: string, id: string}[], onClose: () => void}} props */
export function CancelDialog({ run, reach = [], onClose }) {
  const [state, setState] = useState(/** @type {any} */ ({}));
  const cancel = async () => {
    setState({ isSent: true });
    try {
      setState({ receipt: await post(`/v1/runs/${part(run.run_id)}/cancel`, undefined, { deadline: WAIT }) });
    } catch (error) {
      setState({ error });
    }
  };
  return html`<${Dialog} title=${state.receipt ? 'What the cancel reached' : 'Cancel this run?'} onClose=${onClose}>
    ${state.error ? html`<${Failed} error=${state.error} onRetry=${cancel} />`
      : state.receipt ? html`<${Receipt} receipt=${state.receipt} />`
      : state.isSent ? html`<${Loading} />`
      : html`<p>The run of <b><${Text} of=${run.agent_id} /></b>, everything it has started and every call that is under way will be stopped. What has been done stays done.</p>
        ${reach.length > 0 && html`<ul class="reach">${reach.slice(0, MOST).map((one) => html`<li key=${one.id}>${one.kind} <b><${Text} of=${one.name} /></b></li>`)}
          ${reach.length > MOST && html`<li>and ${reach.length - MOST} more</li>`}</ul>`}`}
    <form method="dialog" class="acts">
      <button>${state.receipt || state.error ? 'Close' : 'Keep it running'}</button>
      ${!state.isSent && !state.receipt && !state.error && html`<button type="button" class="no" onClick=${cancel}>Cancel the run</button>`}
    </form></${Dialog}>`;
}

/** @param {{receipt: any}} props */
export function Receipt({ receipt }) {
  if (!receipt.accepted) return html`<p>The run was over already.</p>`;
  const items = [...receipt.items].sort((a, b) => ORDER.indexOf(a.outcome) - ORDER.indexOf(b.outcome));
  return html`
    ${!receipt.complete && html`<p class="wrong">Not everything has answered yet: what follows is what is known.</p>`}
    <table><thead><tr><th>outcome</th><th>what</th><th>note</th></tr></thead>
      <tbody>${items.map((item) => html`<tr key=${item.id}>
        <td><${Shape} of=${SHAPES[item.outcome] ?? item.outcome} /> ${item.outcome}</td>
        <td>${item.kind} <b><${Text} of=${item.name} /></b></td>
        <td><${Text} of=${item.note ?? ''} /></td></tr>`)}</tbody></table>
    ${items.some((item) => item.outcome === 'unknown' || item.note) && html`<h3>What to do</h3>
      <p>Nobody knows whether a call with a note took effect. Look where it acts, such as the books or the bank, before anyone asks for it again.</p>`}`;
}
