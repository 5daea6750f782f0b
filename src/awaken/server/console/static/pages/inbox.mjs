/** The questions that wait for an answer, and those that were answered. */

import { get, may, part, post, send } from '../api.mjs';
import { beginning } from '../format.mjs';
import { addressOf, keepInAddress, place, useKeys } from '../router.mjs';
import { entitle } from '../shell.mjs';
import { html, useState } from '../view.mjs';
import { askToNotify, changes, mayAsk, openTickets, problem, readTickets, unreadableTickets } from '../wire.mjs';
import { Dialog, Empty, Failed, Loading, Unreadable, useLoaded } from '../parts/faces.mjs';
import { Left, Shape, Text, When } from '../parts/text.mjs';
import { kindOf, TicketCard } from '../parts/ticket.mjs';

export function InboxPage() {
  const isHistory = place.value.query.show === 'history';
  entitle('Inbox');
  if (problem.value) return html`<${Failed} error=${problem.value} onRetry=${readTickets} isPage />`;
  if (problem.value === undefined) return html`<${Loading} />`;
  return isHistory ? html`<${History} />` : html`<${Waiting} />`;
}

/** The shape of each kind of question, and its words in the list. @type {Record<string, (ticket: any) => {shape: string, words: string}>} */
const KINDS = {
  approval: ({ arguments: given }) => ({ shape: 'waits', words: JSON.stringify(given ?? '') }),
  value: ({ arguments: given }) => ({ shape: 'waits', words: JSON.stringify(given ?? '') }),
  outcome: () => ({ shape: 'unknown', words: 'outcome unknown: did the call take effect?' }),
  budget: ({ arguments: { limit, amount } }) => ({ shape: 'budget', words: `${limit === 'money' ? '' : `${amount} `}${amount === 1 ? limit.replace(/s$/, '') : limit} used up` }),
};

function Waiting() {
  const { query } = place.value;
  const every = openTickets.value;
  const tools = [...new Set(every.map((one) => one.tool_name))].sort();
  const tickets = every.filter((one) => !query.tool || one.tool_name === query.tool);
  const [kept, setKept] = useState(/** @type {string | null} */ (null));
  const shown = query.ticket ?? kept ?? tickets[0]?.key;
  const [many, setMany] = useState(/** @type {any[]} */ ([]));
  if (shown && shown !== kept) setKept(shown);
  const ticket = every.find((one) => one.key === shown);
  const same = tickets.filter((one) => one.tool_name === ticket?.tool_name && kindOf(one) === 'approval');
  const go = (/** @type {number} */ by) => {
    const at = tickets.findIndex((one) => one.key === shown);
    const next = tickets[Math.max(0, Math.min(tickets.length - 1, at + by))];
    if (next) keepInAddress({ ticket: next.key });
  };
  useKeys({ j: () => go(1), k: () => go(-1), ArrowDown: () => go(1), ArrowUp: () => go(-1) });
  return html`<div class=${`screen ${shown ? 'sided' : ''}`}>
    <div class="head-bar"><div><h1>Inbox</h1>
      <p class="sub">${tickets.length ? html`${tickets.length} wait${tickets.length === 1 ? 's' : ''} for an answer · oldest <${When} at=${tickets[0].asked_at} isInSentence />` : 'nothing waits for an answer'}</p></div>
      <div class="acts">
        ${same.length > 1 && may('decide', 'invoke') && html`<button onClick=${() => setMany(same)}>Answer ${same.length} alike</button>`}
        ${(tools.length > 1 || query.tool) && html`<select class="short" aria-label="Tool" value=${query.tool ?? ''}
          onChange=${(/** @type {any} */ event) => keepInAddress({ tool: event.target.value, ticket: null })}>
          <option value="">every tool</option>${tools.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>`}
        ${mayAsk.value && html`<button onClick=${askToNotify}>Notify me</button>`}<${Faces} /></div></div>
    <div class="body">
      <${Unreadable} rows=${unreadableTickets.value} />
      ${tickets.length ? html`<${Tickets} tickets=${tickets} shown=${shown} />`
        : html`<${Empty} title="Nothing waits for you"><p>When an agent asks before it acts, its question appears here.</p></${Empty}>`}
    </div>
    ${shown && html`<aside class="side question" aria-label="The question"><${Ticket} key=${shown} ticketKey=${shown} ticket=${ticket} /></aside>`}
    ${many.length > 0 && html`<${Alike} tickets=${many} onClose=${() => setMany([])} />`}
  </div>`;
}

/** @param {{tickets: any[], shown: string | undefined}} props */
function Tickets({ tickets, shown }) {
  return html`<ul class="list">${tickets.map((ticket) => {
    const { shape, words } = KINDS[kindOf(ticket)](ticket);
    return html`<li key=${ticket.key}>
    <button class="item" aria-current=${ticket.key === shown} onClick=${() => keepInAddress({ ticket: ticket.key })}>
      <${Shape} of=${shape} />
      <span class="title"><b><${Text} of=${ticket.tool_name} /></b> <code><${Text} of=${beginning(words, 120)} /></code></span>
      <span class="about">${ticket.asked_by && html`<${Text} of=${ticket.asked_by} />, in `}thread <${Text} of=${ticket.thread_id} /></span>
      <span class="when"><${When} at=${ticket.asked_at} /></span>
      <span class="more">${ticket.expires_at && html`<${Left} until=${ticket.expires_at} />`}</span>
    </button></li>`;
  })}</ul>`;
}

/** @param {{ticket: any, ticketKey: string}} props */
function Ticket({ ticket, ticketKey }) {
  return html`
    ${ticket && html`<h2><${Shape} of=${KINDS[kindOf(ticket)](ticket).shape} /><${Text} of=${ticket.tool_name} /></h2>
    <dl><dt>thread</dt><dd><a href=${addressOf(['threads', ticket.thread_id])}><${Text} of=${ticket.thread_id} /></a></dd>
      <dt>run</dt><dd><a href=${addressOf(['runs', ticket.run_id])}>see its steps</a></dd>
      <dt>asked</dt><dd><${When} at=${ticket.asked_at} isInSentence />${ticket.asked_by && html` by <${Text} of=${ticket.asked_by} />`}</dd></dl>
    <${Before} ticket=${ticket} />`}
    <${TicketCard} ticketKey=${ticketKey} />`;
}

/** The text of the model beside the call: often the reason. It is no great loss if it cannot be
 * read, so the question is shown all the same. @param {{ticket: any}} props */
function Before({ ticket }) {
  const { value: text } = useLoaded(() => loadTextBefore(ticket).catch(() => ''), [ticket.key]);
  return text ? html`<h3>Before it asked, it said</h3><p class="said-block" dir="auto"><${Text} of=${text} /></p>` : null;
}

/** @param {any} ticket @returns {Promise<string>} */
async function loadTextBefore(ticket) {
  const { items } = await get(`/v1/threads/${part(ticket.thread_id)}/messages`, { order: 'desc', limit: 20 });
  const made = items.find((/** @type {any} */ { message }) => message.tool_calls?.some((/** @type {any} */ call) => call.id === ticket.call_id));
  const content = made?.message.content ?? '';
  const text = typeof content === 'string' ? content : content.map((/** @type {any} */ block) => block.text ?? '').join('');
  return beginning(text, 600);
}

// -- The questions that were answered, with approver, time, reason and arguments.

const MOST = 500;

function History() {
  const { value, error, again } = useLoaded(load, [changes.value]);
  const [hasFailed, setHasFailed] = useState(false);
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Inbox</h1><p class="sub">what was answered, newest first</p></div>
      <div class="acts">${value && value.length > 0 && html`${hasFailed && html`<span class="wrong" role="alert">the file could not be made</span>`}<button onClick=${() => download(() => setHasFailed(true))}>Download CSV</button>`}<${Faces} /></div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : !value ? html`<${Loading} />`
        : !value.length ? html`<${Unreadable} rows=${value.unreadable} /><${Empty} title="No question was answered yet" />`
        : html`<${Unreadable} rows=${value.unreadable} /><table class="wide"><thead><tr><th>when</th><th>who</th><th>answer</th><th>tool</th><th>asked for</th><th>given</th><th>why</th><th>run</th></tr></thead>
          <tbody>${value.map((/** @type {any} */ ticket) => html`<${Line} key=${ticket.key} ticket=${ticket} />`)}</tbody></table>`}
    </div></div>`;
}

async function load() {
  const pages = await Promise.all(['answered', 'expired', 'closed'].map((status) => get('/v1/tickets', { status, limit: MOST })));
  const items = pages.flatMap((page) => page.items).sort((a, b) => timeOf(b) - timeOf(a));
  return Object.assign(items, { unreadable: pages.flatMap((page) => page.unreadable ?? []) });
}

/** @param {any} ticket */
const timeOf = (ticket) => ticket.decision?.at ?? ticket.asked_at;
/** @param {any} ticket */
const answerOf = (ticket) => (!ticket.decision ? (ticket.status === 'closed' ? 'withdrawn' : ticket.status) : ticket.decision.action === 'cancel' ? 'no' : ticket.decision.result === null ? 'yes' : 'yes, with another value');

/** @param {{ticket: any}} props */
function Line({ ticket }) {
  const { decision } = ticket;
  return html`<tr><td><${When} at=${timeOf(ticket)} /></td>
    <td><${Text} of=${decision?.by ?? ''} /></td><td>${answerOf(ticket)}</td>
    <td><b><${Text} of=${ticket.tool_name} /></b></td>
    <td><code><${Text} of=${JSON.stringify(ticket.arguments)} /></code></td>
    <td>${decision && decision.result !== null && html`<code><${Text} of=${JSON.stringify(decision.result)} /></code>`}</td>
    <td><${Text} of=${decision?.reason ?? ''} /></td>
    <td><a href=${addressOf(['runs', ticket.run_id])}>see its steps</a></td></tr>`;
}

/** The whole table as a file; that it was taken is written down. @param {() => void} onFailed */
async function download(onFailed) {
  const answer = await send('GET', '/v1/tickets/export').catch(onFailed);
  if (!answer) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = 'answers.csv';
  link.click();
  URL.revokeObjectURL(link.href);
}

// -- One answer to several questions of one tool: exactly to those that are shown.

/** @param {{tickets: any[], onClose: () => void}} props */
function Alike({ tickets, onClose }) {
  const [shown] = useState(tickets);
  const [outcomes, setOutcomes] = useState(/** @type {Record<string, string>} */ ({}));
  const [isSending, setIsSending] = useState(false);
  const isDone = Object.keys(outcomes).length === shown.length;
  const decide = async (/** @type {'approve' | 'deny'} */ action) => {
    setIsSending(true);
    for (const ticket of shown) {
      const answer = { ticket: ticket.key, action, digest: ticket.digest };
      const word = await post(`/v1/runs/${part(ticket.run_id)}/decisions`, [answer]).then(
        () => (action === 'approve' ? 'approved' : 'denied'),
        (error) => `refused: ${error.message}`,
      );
      setOutcomes((before) => ({ ...before, [ticket.key]: word }));
    }
    setIsSending(false);
  };
  return html`<${Dialog} title=${`${shown.length} questions of ${shown[0].tool_name}`} onClose=${onClose}>
    <table><thead><tr><th>arguments</th><th>thread</th><th>answer</th></tr></thead>
      <tbody>${shown.map((ticket) => html`<tr key=${ticket.key}>
        <td><code><${Text} of=${JSON.stringify(ticket.arguments)} /></code></td><td><${Text} of=${ticket.thread_id} /></td>
        <td role="status"><${Text} of=${outcomes[ticket.key] ?? ''} /></td></tr>`)}</tbody></table>
    <form method="dialog" class="acts"><button>Close</button>
      ${!isDone && html`<button type="button" class="no" disabled=${isSending} onClick=${() => decide('deny')}>Deny all ${shown.length}</button>
        <button type="button" class="yes" disabled=${isSending} onClick=${() => decide('approve')}>Approve all ${shown.length}</button>`}
    </form></${Dialog}>`;
}

// -- The two lists of the inbox: open questions, and answered ones.

function Faces() {
  const isHistory = place.value.query.show === 'history';
  return html`<button aria-pressed=${!isHistory} onClick=${() => keepInAddress({ show: null })}>waiting</button>
    <button aria-pressed=${isHistory} onClick=${() => keepInAddress({ show: 'history', ticket: null })}>history</button>`;
}
