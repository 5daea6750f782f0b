/** What waits for an answer. */

import { part } from '../api.mjs';
import { beginning } from '../format.mjs';
import { keepInAddress, place } from '../router.mjs';
import { entitle } from '../shell.mjs';
import { openTickets, problem, readTickets } from '../tickets.mjs';
import { html, useState } from '../view.mjs';
import { Empty, Failed, Loading } from '../parts/faces.mjs';
import { Text, When } from '../parts/text.mjs';
import { TicketCard } from '../parts/ticket.mjs';

export function InboxPage() {
  const tickets = openTickets.value;
  const chosen = place.value.query.ticket ?? tickets[0]?.key;
  const [kept, setKept] = useState(/** @type {string | null} */ (null));
  const shown = place.value.query.ticket ?? kept ?? chosen;
  entitle('Inbox');
  if (shown && shown !== kept) setKept(shown);
  if (problem.value) return html`<${Failed} error=${problem.value} onRetry=${readTickets} isPage />`;
  if (problem.value === undefined) return html`<${Loading} />`;
  return html`<div class=${`screen ${shown ? 'sided' : ''}`}>
    <div class="head-bar"><div><h1>Inbox</h1>
      <p class="sub">${tickets.length ? html`${tickets.length} wait${tickets.length === 1 ? 's' : ''} for an answer · oldest <${When} at=${tickets[0].asked_at} />` : 'nothing waits for an answer'}</p></div></div>
    <div class="body">
      ${tickets.length ? html`<${Tickets} tickets=${tickets} shown=${shown} />`
        : html`<${Empty} title="Nothing waits for you"><p>When an agent asks before it acts, its question appears here.</p></${Empty}>`}
    </div>
    ${shown && html`<aside class="side" aria-label="The question"><${Ticket} key=${shown} ticketKey=${shown}
      ticket=${tickets.find((one) => one.key === shown)} /></aside>`}
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
