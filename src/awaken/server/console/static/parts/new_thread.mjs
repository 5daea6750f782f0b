/** A new conversation with an agent. */

import { get, part, post } from '../api.mjs';
import { go } from '../router.mjs';
import { html, useState } from '../view.mjs';
import { Dialog } from './dialog.mjs';
import { useLoaded } from './faces.mjs';
import { Text } from './text.mjs';

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
