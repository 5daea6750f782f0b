/** Where one writes to an agent. */

import { get, part, post } from '../api.mjs';
import { go } from '../router.mjs';
import { html, useState } from '../view.mjs';
import { Dialog } from './dialog.mjs';
import { useLoaded } from './faces.mjs';
import { Text } from './text.mjs';

/** @type {Record<string, string>} */
const MODES = { steer: 'next step', queue: 'after it', interrupt: 'instead' };

/** Ask an agent in a thread, which is begun if there is none.
 * @param {string} thread @param {any} asked */
export const submit = (thread, asked) => post(`/v1/threads/${part(thread)}/runs`, asked);

/** @param {{thread: string, agent: string | undefined, isLive: boolean, onStop: () => void}} props */
export function Composer({ thread, agent, isLive, onStop }) {
  const [text, setText] = useState('');
  const [mode, setMode] = useState('steer');
  const [wrong, setWrong] = useState('');
  const send = async () => {
    if (!text.trim()) return;
    setWrong('');
    try {
      await submit(thread, { agent_id: agent, messages: [text], ...(isLive ? { mode } : {}) });
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
    </div></div>`;
}

/** @param {{onClose: () => void}} props */
export function NewThread({ onClose }) {
  const agents = useLoaded(() => get('/v1/agents'), []);
  const [asked, setAsked] = useState({ agent: '', text: '' });
  const [wrong, setWrong] = useState('');
  const names = agents.value?.items.map((/** @type {any} */ one) => one.id) ?? [];
  const change = (/** @type {any} */ event) => setAsked({ ...asked, [event.target.name]: event.target.value });
  const begin = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const made = await post('/v1/runs', { agent_id: asked.agent || names[0], messages: [asked.text] });
      go(`/console/threads/${part(made.thread_id)}`);
    } catch (error) {
      setWrong(/** @type {Error} */ (error).message);
    }
  };
  return html`<${Dialog} title="New thread" onClose=${onClose}>
    <form onSubmit=${begin}>
      <label>Agent<select name="agent" value=${asked.agent || names[0]} onChange=${change}>
        ${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></label>
      <label>Message<textarea name="text" rows="3" value=${asked.text} onInput=${change}></textarea></label>
      ${(wrong || agents.error) && html`<p class="wrong" role="alert"><${Text} of=${wrong || agents.error.message} /></p>`}
      <div class="acts"><button type="button" onClick=${onClose}>Close</button>
        <button class="main" disabled=${!asked.text.trim() || !names.length}>Ask</button></div>
    </form></${Dialog}>`;
}
