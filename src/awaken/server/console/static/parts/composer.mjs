/** Where one writes to an agent. */

import { part, post } from '../api.mjs';
import { html, useRef, useState } from '../view.mjs';
import { Receipt } from './cancel.mjs';
import { Dialog } from './dialog.mjs';
import { Text } from './text.mjs';

/** @type {Record<string, string>} */
const MODES = { steer: 'next step', queue: 'after it', instead: 'instead' };
const INSTEAD = 'instead';
const WAIT = 10;
/** What becomes of a message that is not answered at once. @type {Record<string, string>} */
const SENT = {
  steer: 'Sent: the run reads it at its next step.',
  queue: 'Sent: it is taken up when the run has ended.',
};

/** Ask an agent in a thread, which is begun if there is none.
 * @param {string} thread @param {any} asked */
export const submit = (thread, asked) => post(`/v1/threads/${part(thread)}/runs`, asked);

/** @param {{thread: string, agent: string | undefined, run: any, isOpen: boolean, onStop: () => void}} props
 * `isOpen`: the run works, or waits for an answer */
export function Composer({ thread, agent, run, isOpen, onStop }) {
  const [text, setText] = useState('');
  const [mode, setMode] = useState('steer');
  const [wrong, setWrong] = useState('');
  const [receipt, setReceipt] = useState(/** @type {any} */ (null));
  const [note, setNote] = useState('');
  const isSending = useRef(false);
  const send = async () => {
    if (!text.trim() || isSending.current) return;
    isSending.current = true;
    setWrong('');
    setNote('');
    try {
      if (isOpen && mode === INSTEAD) setReceipt(await post(`/v1/runs/${part(run.run_id)}/cancel`, undefined, { deadline: WAIT }));
      await submit(thread, { agent_id: agent, messages: [text], ...(isOpen && mode !== INSTEAD ? { mode } : {}) });
      setText('');
      if (isOpen) setNote(SENT[mode] ?? '');
    } catch (error) {
      setWrong(/** @type {Error} */ (error).message);
    }
    isSending.current = false;
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return html`<div class="composer">
    <textarea aria-label="Message" placeholder="Write… Enter sends, Shift+Enter makes a new line" value=${text} dir="auto"
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown}></textarea>
    ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
    <div class="acts">
      <span class="acts">${isOpen && html`<select aria-label="When" value=${mode}
        onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
        ${Object.entries(MODES).map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
        <button class="no" onClick=${onStop}>Stop</button>`}<small role="status">${note}</small></span>
      <button class="main" disabled=${!text.trim()} onClick=${send}>Send</button>
    </div>
    ${receipt && html`<${Dialog} title="What the cancel reached" onClose=${() => setReceipt(null)}>
      <${Receipt} receipt=${receipt} /><form method="dialog" class="acts"><button>Close</button></form></${Dialog}>`}
  </div>`;
}
