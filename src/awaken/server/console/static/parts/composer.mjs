/** Where one writes to an agent. */

import { part, post } from '../api.mjs';
import { html, useState } from '../view.mjs';
import { Receipt } from './cancel.mjs';
import { Dialog } from './dialog.mjs';
import { Text } from './text.mjs';

/** @type {Record<string, string>} */
const MODES = { steer: 'next step', queue: 'after it', instead: 'instead' };
const INSTEAD = 'instead';
const WAIT = 10;

/** Ask an agent in a thread, which is begun if there is none.
 * @param {string} thread @param {any} asked */
export const submit = (thread, asked) => post(`/v1/threads/${part(thread)}/runs`, asked);

/** @param {{thread: string, agent: string | undefined, run: any, isLive: boolean, onStop: () => void}} props */
export function Composer({ thread, agent, run, isLive, onStop }) {
  const [text, setText] = useState('');
  const [mode, setMode] = useState('steer');
  const [wrong, setWrong] = useState('');
  const [receipt, setReceipt] = useState(/** @type {any} */ (null));
  const send = async () => {
    if (!text.trim()) return;
    setWrong('');
    try {
      if (isLive && mode === INSTEAD) setReceipt(await post(`/v1/runs/${part(run.run_id)}/cancel`, undefined, { deadline: WAIT }));
      await submit(thread, { agent_id: agent, messages: [text], ...(isLive && mode !== INSTEAD ? { mode } : {}) });
      setText('');
    } catch (error) {
      setWrong(/** @type {Error} */ (error).message);
    }
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return html`<div class="composer">
    <textarea aria-label="Message" placeholder="Write… Enter sends, Shift+Enter makes a new line" value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown}></textarea>
    ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
    <div class="acts">
      <span class="acts">${isLive && html`<select aria-label="When" value=${mode}
        onChange=${(/** @type {any} */ event) => setMode(event.target.value)}>
        ${Object.entries(MODES).map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
        <button class="no" onClick=${onStop}>Stop</button>`}</span>
      <button class="main" disabled=${!text.trim()} onClick=${send}>Send</button>
    </div>
    ${receipt && html`<${Dialog} title="What the cancel reached" onClose=${() => setReceipt(null)}>
      <${Receipt} receipt=${receipt} /><form method="dialog" class="acts"><button>Close</button></form></${Dialog}>`}
  </div>`;
}
