/** Cancelling a run: it asks once, then shows the receipt. */

import { get, part, post, send } from '../api.mjs';
import { formatDuration } from '../format.mjs';
import { addressOf, areOn, go, switchKeys } from '../router.mjs';
import { announce } from '../shell.mjs';
import { html, useEffect, useState } from '../view.mjs';
import { Dialog, Failed, Loading, useLoaded } from './faces.mjs';
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
      <p>Outcome unknown: a call with a note may have taken effect or not. Look where the call acts, such as the books or the bank, before you ask for it again.</p>`}`;
}

// -- A new conversation with an agent.

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
      go(addressOf(['threads', made.thread_id]));
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

// -- The keys that act on the page, and the switch that turns single keys off.

/** @type {[string[], string][]} */
const KEYS = [
  [['g i', 'g t', 'g r'], 'Inbox, Threads, Runs'],
  [['j', 'k', '↓', '↑'], 'move in a list or in the tree of a run'],
  [['←', '→', '*'], 'fold, unfold, unfold everything beneath'],
  [['1', '…', '6'], 'tabs of the inspector'],
  [['n', 'p'], 'next, previous failure of a run'],
  [['a'], 'approve: press it twice, or Enter'],
  [['e'], 'edit the arguments'],
  [['d'], 'deny: it asks for the reason, Enter sends it'],
  [['n'], 'new thread, in the list of threads'],
  [['x'], 'cancel the run (it asks)'],
  [['Ctrl K'], 'do anything by name'],
  [['/'], 'find in this run or list, or do anything by name'],
  [['c'], 'copy the link to what you see'],
  [['Esc'], 'close, or back to the list'],
  [['?'], 'these keys'],
];

/** @param {{onClose: () => void}} props */
export function KeysHelp({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table><tbody>${KEYS.map(([keys, action]) => html`<tr key=${action}><td class="keys">${keys.map((key) => html`<kbd key=${key}>${key}</kbd>`)}</td><td>${action}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${areOn.value} onChange=${(/** @type {any} */ event) => switchKeys(event.target.checked)} />
      Single keys act when no field has the focus</label>
    <form method="dialog" class="acts"><button>Close</button></form></${Dialog}>`;
}

// -- Anything by name.

const MOST_FOUND = 12;

/** @param {{commands: [string, () => void][], onClose: () => void}} props */
export function Palette({ commands, onClose }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const threads = useLoaded(() => get('/v1/threads', { root: true, limit: 200 }), []);
  const searched = useSearched(text);
  const open = (/** @type {string} */ id) => () => go(addressOf(['threads', id]));
  /** @type {[string, () => void, string?][]} */
  const known = (threads.value?.items ?? []).map((/** @type {any} */ one) => [`Thread: ${one.title || one.id}`, open(one.id), one.id]);
  const words = text.toLowerCase().split(/\s+/);
  const named = [...commands, ...known].filter(([name]) => words.every((word) => name.toLowerCase().includes(word))).slice(0, MOST_FOUND);
  const shown = new Set(named.map(([, , id]) => id));
  const hits = searched.items.filter((/** @type {any} */ hit) => !shown.has(hit.thread_id));
  /** @type {[string, () => void, string?][]} */
  const found = [...named, ...hits.map((/** @type {any} */ hit) => /** @type {[string, () => void]} */ ([`Thread: ${hit.title || hit.thread_id}${hit.snippet ? ` · ${hit.snippet}` : ''}`, open(hit.thread_id)]))];
  const pick = (/** @type {number} */ which) => {
    if (!found[which]) return;
    onClose();
    found[which][1]();
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) setAt((at + by + found.length) % Math.max(1, found.length));
    else if (event.key === 'Enter' && !event.isComposing) pick(at);
    else return;
    event.preventDefault();
  };
  const onInput = (/** @type {any} */ event) => {
    setText(event.target.value);
    setAt(0);
  };
  return html`<${Dialog} title="Do anything by name" onClose=${onClose}>
    <input role="combobox" aria-label="Name of a place, a thread or a deed" aria-expanded="true" aria-controls="palette"
      aria-activedescendant=${found.length ? `palette-${at}` : undefined} autocomplete="off" value=${text} onInput=${onInput} onKeyDown=${onKeyDown} />
    <ul class="palette" id="palette" role="listbox" aria-label="What fits">${found.map(([name], which) => html`<li key=${which} id=${`palette-${which}`}
      role="option" aria-selected=${which === at} onClick=${() => pick(which)}><${Text} of=${name} /></li>`)}</ul>
    ${searched.note ? html`<p class="sub" role="status"><${Text} of=${searched.note} /></p>`
      : !found.length && !searched.isBusy && html`<p class="sub" role="status">Nothing has such a name, and no thread has these words.</p>`}</${Dialog}>`;
}

const SEARCH_AFTER = 150;
const NO_HITS = { items: /** @type {any[]} */ ([]), note: '', isBusy: false };

/** The threads in which the words are, as the server finds them while one types: the last word may be
 * the beginning of one. @param {string} text */
function useSearched(text) {
  const [found, setFound] = useState(NO_HITS);
  const words = text.trim();
  useEffect(() => {
    if (words.length < 2) return setFound(NO_HITS);
    setFound((known) => ({ ...known, note: '', isBusy: true }));
    let isWanted = true;
    const q = /[\p{L}\p{N}]$/u.test(words) && !/:\S*$|"/.test(words) ? `${words}*` : words;
    const timer = setTimeout(() => get('/v1/search', { q, limit: MOST_FOUND }).then(
      ({ items }) => isWanted && setFound({ ...NO_HITS, items }),
      (error) => isWanted && setFound({ ...NO_HITS, note: error.message }),
    ), SEARCH_AFTER);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [words]);
  return found;
}

// -- The demo's bar: its button kills the server, which is started again by its parent process.

const PAUSE = 300;

export function KillBar() {
  const [words, setWords] = useState('The demo shop: answer the question that waits for you. Nothing is lost if the server dies.');
  const [isDead, setIsDead] = useState(false);
  const kill = async () => {
    const began = Date.now();
    setIsDead(true);
    setWords('The server was killed with SIGKILL, which leaves it no time to save anything. It is being started again…');
    await send('POST', '/v1/demo/kill');
    while (!(await get('/v1/me').catch(() => null))) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    const sentence = `The server was dead for ${formatDuration(Date.now() - began)}. A new process went on from the last commit: nothing was lost, nothing is done twice.`;
    setIsDead(false);
    setWords(sentence);
    announce(sentence);
  };
  return html`<div class="bar-note demo"><span>${words}</span>
    <button class="no" disabled=${isDead} onClick=${kill}>Kill the server</button></div>`;
}
