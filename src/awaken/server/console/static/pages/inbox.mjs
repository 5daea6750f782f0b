/** What waits for an answer. */

import { part } from '../api.mjs';
import { beginning } from '../format.mjs';
import { keepInAddress, place } from '../router.mjs';
import { may } from '../session.mjs';
import { entitle } from '../shell.mjs';
import { openTickets, problem, readTickets } from '../tickets.mjs';
import { html, useState } from '../view.mjs';
import { Empty, Failed, Loaded, Loading } from '../parts/faces.mjs';
import { Faces } from '../parts/inbox_faces.mjs';
import { Text, When } from '../parts/text.mjs';
import { TicketCard, WANTS_VALUE } from '../parts/ticket.mjs';

export function InboxPage() {
  const isHistory = place.value.query.show === 'history';
  entitle('Inbox');
  if (problem.value) return html`<${Failed} error=${problem.value} onRetry=${readTickets} isPage />`;
  if (problem.value === undefined) return html`<${Loading} />`;
  return isHistory ? html`<${Loaded} load=${history} />` : html`<${Waiting} />`;
}

const history = async () => (await import('../parts/history.mjs')).History;
const alike = async () => (await import('../parts/alike.mjs')).Alike;

function Waiting() {
  const tickets = openTickets.value;
  const chosen = place.value.query.ticket ?? tickets[0]?.key;
  const [kept, setKept] = useState(/** @type {string | null} */ (null));
  const shown = place.value.query.ticket ?? kept ?? chosen;
  const [many, setMany] = useState(/** @type {any[]} */ ([]));
  if (shown && shown !== kept) setKept(shown);
  const ticket = tickets.find((one) => one.key === shown);
  const same = tickets.filter((one) => one.tool_name === ticket?.tool_name && one.answer !== WANTS_VALUE);
  return html`<div class=${`screen ${shown ? 'sided' : ''}`}>
    <div class="head-bar"><div><h1>Inbox</h1>
      <p class="sub">${tickets.length ? html`${tickets.length} wait${tickets.length === 1 ? 's' : ''} for an answer · oldest <${When} at=${tickets[0].asked_at} />` : 'nothing waits for an answer'}</p></div>
      <div class="acts">
        ${same.length > 1 && may('decide', 'invoke') && html`<button onClick=${() => setMany(same)}>Answer ${same.length} alike</button>`}
        <${Faces} /></div></div>
    <div class="body">
      ${tickets.length ? html`<${Tickets} tickets=${tickets} shown=${shown} />`
        : html`<${Empty} title="Nothing waits for you"><p>When an agent asks before it acts, its question appears here.</p></${Empty}>`}
    </div>
    ${shown && html`<aside class="side" aria-label="The question"><${Ticket} key=${shown} ticketKey=${shown} ticket=${ticket} /></aside>`}
    ${many.length > 0 && html`<${Loaded} load=${alike} tickets=${many} onClose=${() => setMany([])} />`}
  </div>`;
}

/** @param {{tickets: any[], shown: string | undefined}} props */
function Tickets({ tickets, shown }) {
  return html`<ul class="list">${tickets.map((ticket) => html`<li key=${ticket.key}>
    <button class="item" aria-current=${ticket.key === shown} onClick=${() => keepInAddress({ ticket: ticket.key })}>
      <span class="shape waits" aria-hidden="true">?</span>
      <span class="title"><b><${Text} of=${ticket.tool_name} /></b> <code><${Text} of=${beginning(JSON.stringify(ticket.arguments ?? ''), 120)} /></code></span>
      <span class="about">${ticket.asked_by && html`<${Text} of=${ticket.asked_by} />, in `}thread <${Text} of=${ticket.thread_id} /></span>
      <span class="when"><${When} at=${ticket.asked_at} /></span>
      <span class="more">${ticket.expires_at && 'expires'}</span>
    </button></li>`)}</ul>`;
}

/** @param {{ticket: any, ticketKey: string}} props */
function Ticket({ ticket, ticketKey }) {
  return html`
    ${ticket && html`<h2><span class="shape waits" aria-hidden="true">?</span><${Text} of=${ticket.tool_name} /></h2>
    <dl><dt>thread</dt><dd><a href=${`/console/threads/${part(ticket.thread_id)}`}><${Text} of=${ticket.thread_id} /></a></dd>
      <dt>run</dt><dd><a href=${`/console/runs/${part(ticket.run_id)}`}>see its steps</a></dd>
      <dt>asked</dt><dd><${When} at=${ticket.asked_at} isInSentence />${ticket.asked_by && html` by <${Text} of=${ticket.asked_by} />`}</dd></dl>`}
    <${TicketCard} ticketKey=${ticketKey} />`;
}
