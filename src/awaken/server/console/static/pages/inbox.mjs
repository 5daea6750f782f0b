/** What waits for an answer. */

import { get, part } from '../api.mjs';
import { beginning } from '../format.mjs';
import { useKeys } from '../keys.mjs';
import { keepInAddress, place } from '../router.mjs';
import { may } from '../session.mjs';
import { entitle } from '../shell.mjs';
import { openTickets, problem, readTickets } from '../tickets.mjs';
import { html, useState } from '../view.mjs';
import { kindOf } from '../parts/answer_form.mjs';
import { Empty, Failed, Loaded, Loading, useLoaded } from '../parts/faces.mjs';
import { Faces } from '../parts/inbox_faces.mjs';
import { Left, Shape, Text, When } from '../parts/text.mjs';
import { TicketCard } from '../parts/ticket.mjs';

export function InboxPage() {
  const isHistory = place.value.query.show === 'history';
  entitle('Inbox');
  if (problem.value) return html`<${Failed} error=${problem.value} onRetry=${readTickets} isPage />`;
  if (problem.value === undefined) return html`<${Loading} />`;
  return isHistory ? html`<${Loaded} load=${history} />` : html`<${Waiting} />`;
}

const history = async () => (await import('../parts/history.mjs')).History;
const alike = async () => (await import('../parts/alike.mjs')).Alike;

/** The shape of each kind of question, and its words in the list. @type {Record<string, (ticket: any) => {shape: string, words: string}>} */
const KINDS = {
  approval: ({ arguments: given }) => ({ shape: 'waits', words: JSON.stringify(given ?? '') }),
  value: ({ arguments: given }) => ({ shape: 'waits', words: JSON.stringify(given ?? '') }),
  outcome: () => ({ shape: 'unknown', words: 'nobody knows whether it happened' }),
  budget: ({ arguments: { limit, amount } }) => ({ shape: 'budget', words: `${limit === 'money' ? '' : `${amount} `}${limit} used up` }),
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
      <p class="sub">${tickets.length ? html`${tickets.length} wait${tickets.length === 1 ? 's' : ''} for an answer · oldest <${When} at=${tickets[0].asked_at} />` : 'nothing waits for an answer'}</p></div>
      <div class="acts">
        ${same.length > 1 && may('decide', 'invoke') && html`<button onClick=${() => setMany(same)}>Answer ${same.length} alike</button>`}
        ${(tools.length > 1 || query.tool) && html`<select class="short" aria-label="Tool" value=${query.tool ?? ''}
          onChange=${(/** @type {any} */ event) => keepInAddress({ tool: event.target.value, ticket: null })}>
          <option value="">every tool</option>${tools.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select>`}
        <${Faces} /></div></div>
    <div class="body">
      ${tickets.length ? html`<${Tickets} tickets=${tickets} shown=${shown} />`
        : html`<${Empty} title="Nothing waits for you"><p>When an agent asks before it acts, its question appears here.</p></${Empty}>`}
    </div>
    ${shown && html`<aside class="side question" aria-label="The question"><${Ticket} key=${shown} ticketKey=${shown} ticket=${ticket} /></aside>`}
    ${many.length > 0 && html`<${Loaded} load=${alike} tickets=${many} onClose=${() => setMany([])} />`}
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
    <dl><dt>thread</dt><dd><a href=${`/console/threads/${part(ticket.thread_id)}`}><${Text} of=${ticket.thread_id} /></a></dd>
      <dt>run</dt><dd><a href=${`/console/runs/${part(ticket.run_id)}`}>see its steps</a></dd>
      <dt>asked</dt><dd><${When} at=${ticket.asked_at} isInSentence />${ticket.asked_by && html` by <${Text} of=${ticket.asked_by} />`}</dd></dl>
    <${Before} ticket=${ticket} />`}
    <${TicketCard} ticketKey=${ticketKey} />`;
}

/** What the model said as it made the call: often the reason. It is no great loss if it cannot be
 * read, so the question is shown all the same. @param {{ticket: any}} props */
function Before({ ticket }) {
  const { value: said } = useLoaded(() => saidBefore(ticket).catch(() => ''), [ticket.key]);
  return said ? html`<h3>Before it asked, it said</h3><p class="said-block" dir="auto"><${Text} of=${said} /></p>` : null;
}

/** @param {any} ticket @returns {Promise<string>} */
async function saidBefore(ticket) {
  const { items } = await get(`/v1/threads/${part(ticket.thread_id)}/messages`, { order: 'desc', limit: 20 });
  const made = items.find((/** @type {any} */ { message }) => message.tool_calls?.some((/** @type {any} */ call) => call.id === ticket.call_id));
  const content = made?.message.content ?? '';
  const text = typeof content === 'string' ? content : content.map((/** @type {any} */ block) => block.text ?? '').join('');
  return beginning(text, 600);
}
