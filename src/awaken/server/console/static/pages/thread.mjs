/** One conversation, live, with a field for messages. */

import { get, may, part, post } from '../api.mjs';
import { beginning, money, tokens } from '../format.mjs';
import { addressOf } from '../router.mjs';
import { RunList } from './lists.mjs';
import { entitle, Reconnecting } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { followThread, openTickets } from '../wire.mjs';
import { CancelDialog, Receipt } from '../parts/dialogs.mjs';
import { Dialog, Empty, Failed, Loading, useLoaded } from '../parts/faces.mjs';
import { Json, Markdown, Output, Text, When } from '../parts/text.mjs';
import { TicketCard } from '../parts/ticket.mjs';

const PAGE = 200;
const SETTLED = ['run_start', 'run_finish', 'step_end', 'tool_call_done', 'tool_call_resumed', 'messages_rewound', 'error'];

/** @param {{id: string}} props */
export function ThreadPage({ id }) {
  const { value, error, again } = useLoaded(() => load(id), [id]);
  if (error) return html`<${Failed} error=${error} onRetry=${again} isPage />`;
  if (!value) return html`<${Loading} />`;
  return html`<${Thread} known=${value} again=${again} />`;
}

/** @param {string} id */
async function load(id) {
  const at = `/v1/threads/${part(id)}`;
  const [thread, usage, runs, messages] = await Promise.all([
    get(at),
    get(`${at}/usage`),
    get(`${at}/runs`, { limit: 20 }),
    get(`${at}/messages`, { order: 'desc', limit: PAGE }),
  ]);
  return { thread, usage, runs: runs.items, messages: messages.items.reverse(), hasMore: messages.cursor !== null };
}

/** @param {{known: any, again: () => void}} props */
function Thread({ known, again }) {
  const { thread, usage, runs, messages } = known;
  const [live, setLive] = useState('');
  const [isCancelling, setIsCancelling] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const atEnd = useRef(true);
  const root = thread.id.split('~')[0];

  useEffect(() => followThread({
    thread: thread.id,
    root,
    after: String(thread.event_count),
    onError: again,
    onBatch(events) {
      setLive((text) => events.filter((envelope) => envelope.thread_id === thread.id).reduce(appendText, text));
      if (events.some((envelope) => SETTLED.includes(envelope.event.event_type))) again();
    },
  }), [thread.id]);
  useEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const look = () => {
    if (!box.current) return; // the page has gone, and the browser reports it late
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
  };

  const [latest] = runs;
  const agents = new Map(runs.map((/** @type {any} */ run) => [run.run_id, run.agent_id]));
  const isOpen = Boolean(latest) && latest.status !== 'done';
  const questions = openTickets.value.filter((ticket) => ticket.thread_id === thread.id);
  entitle(thread.title || thread.id);
  return html`<div class="screen sided">
    <${Head} thread=${thread} usage=${usage} isOpen=${isOpen} onStop=${() => setIsCancelling(true)} />
    <div class="talk">
      <div class="messages" ref=${box} onScroll=${look} tabindex="0" role="log" aria-label="Conversation">
        <${Reconnecting} />
        ${!messages.length && !live && html`<${Empty} title="Nothing was said yet" />`}
        ${known.hasMore && html`<p class="sub">Earlier messages are not shown.</p>`}
        ${turns(messages).map((turn) => html`<${Turn} key=${turn.seq} turn=${turn} agents=${agents} />`)}
        ${live && html`<article class="message assistant"><div class="by"><b>${latest?.agent_id ?? 'agent'}</b><span class="pulse"></span></div>
          <div class="text"><${Markdown} of=${live} /></div></article>`}
        ${questions.map((ticket) => html`<${TicketCard} key=${ticket.key} ticketKey=${ticket.key} />`)}
      </div>
      ${may('invoke') && html`<${Composer} thread=${thread.id} agent=${latest?.agent_id} run=${latest} isOpen=${isOpen}
        onStop=${() => setIsCancelling(true)} />`}
    </div>
    <aside class="side runs" aria-label="Runs of this thread"><h2>Runs</h2><${RunList} runs=${runs} /></aside>
    ${isCancelling && latest && html`<${CancelDialog} run=${latest} onClose=${() => (setIsCancelling(false), again())} />`}
  </div>`;
}

/** The text of the step that is being written. @param {string} text @param {any} envelope */
function appendText(text, { event }) {
  switch (event.event_type) {
    case 'text_delta':
      return text + event.delta;
    case 'step_snapshot':
      return event.text ?? '';
    case 'step_start':
    case 'step_end':
    case 'stream_reset':
    case 'run_finish':
    case 'error':
      return '';
    default:
      return text;
  }
}

/** @param {any} props */
function Head({ thread, usage, isOpen, onStop }) {
  const { runs, cost, usage: { total_tokens: used } } = usage;
  return html`<div class="head-bar">
    <div><h1><${Text} of=${thread.title || thread.id} /></h1>
      <p class="sub">${thread.title && html`<code><${Text} of=${thread.id} /></code> · `}begun <${When} at=${thread.created_at} isInSentence />${thread.created_by && html` by <${Text} of=${thread.created_by} />`}
        ${thread.parent_thread_id && html` · within <a href=${addressOf(['threads', thread.parent_thread_id])}>${thread.parent_thread_id}</a>`}</p></div>
    <div class="stats" title="All runs of this thread, with what they have started."><span><b>${runs}</b>${runs === 1 ? 'run' : 'runs'}</span><span><b>${tokens(used) || 0}</b>tokens</span>
      <span><b>${used ? money(cost, usage.has_unknown_cost) : '—'}</b>cost</span></div>
    <div class="acts">${isOpen && may('decide', 'invoke') && html`<button class="no" onClick=${onStop}>Cancel</button>`}</div>
  </div>`;
}

/** Messages with the results of their calls. Call ids repeat in later turns, so a result belongs to
 * the last call with its id before it. @param {any[]} records */
function turns(records) {
  /** @type {any[]} */
  const found = [];
  const asked = new Map();
  for (const { seq, message } of records) {
    if (message.role === 'tool') {
      const call = asked.get(message.tool_call_id);
      if (call) call.result = message;
      continue;
    }
    const calls = (message.tool_calls ?? []).map((/** @type {any} */ call) => ({ call, result: null }));
    for (const one of calls) asked.set(one.call.id, one);
    found.push({ seq, message, calls });
  }
  return found;
}

/** @param {any} message */
function textOf(message) {
  const { content } = message;
  if (typeof content === 'string') return content;
  return (content ?? []).map((/** @type {any} */ block) => (block.type === 'text' ? block.text : block.type === 'thinking' ? '' : `[${block.kind ?? block.title ?? block.type}]`)).join('');
}

/** @param {{turn: any, agents: Map<string, string>}} props */
function Turn({ turn: { message, calls }, agents }) {
  const text = textOf(message);
  const made = message.metadata ?? {};
  const by = message.role === 'user' ? made.by || 'user' : made.sender_agent_id || agents.get(made.run_id) || message.role;
  return html`<article class=${`message ${message.role}`}>
    <div class="by"><b><${Text} of=${by} /></b></div>
    ${text && html`<div class="text" dir="auto">${message.role === 'assistant' ? html`<${Markdown} of=${text} />` : html`<${Text} of=${text} />`}</div>`}
    ${calls.map((/** @type {any} */ { call, result }) => html`<details class="call-line" key=${call.id}>
      <summary>⚙ <b><${Text} of=${call.name} /></b> <code><${Text} of=${beginning(JSON.stringify(call.arguments), 100)} /></code>
        ${result ? html` → <${Text} of=${beginning(textOf(result), 100)} />` : ''}</summary>
      <h3>Arguments</h3><${Json} of=${call.arguments} />
      ${result && html`<h3>Result</h3><${Output} of=${textOf(result)} />`}
    </details>`)}
  </article>`;
}

// -- The field for messages to an agent.

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
const submit = (thread, asked) => post(`/v1/threads/${part(thread)}/runs`, asked);

/** @param {{thread: string, agent: string | undefined, run: any, isOpen: boolean, onStop: () => void}} props
 * `isOpen`: the run is running, or waits for an answer */
function Composer({ thread, agent, run, isOpen, onStop }) {
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
