/** A question that waits for an answer, or how it was answered. */

import { get, part } from '../api.mjs';
import { may } from '../session.mjs';
import { changes } from '../tickets.mjs';
import { html } from '../view.mjs';
import { AnswerForm } from './answer_form.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json } from './json.mjs';
import { Text, When, now } from './text.mjs';

/** The card of a ticket by its key. @param {{ticketKey: string}} props */
export function TicketCard({ ticketKey }) {
  const { value, error, again } = useLoaded(() => get(`/v1/tickets/${part(ticketKey)}`), [ticketKey, changes.value.get(ticketKey)]);
  if (error) return html`<div class="card"><${Failed} error=${error} onRetry=${again} /></div>`;
  if (!value) return html`<div class="card"><${Loading} /></div>`;
  return html`<${Answering} ticket=${value} onAnswered=${again} />`;
}

/** Whether the time for an answer is over, whatever the server has noticed. @param {any} ticket */
export const isLate = (ticket) => Boolean(ticket.expires_at) && now.value >= ticket.expires_at;

/** @param {{ticket: any, onAnswered: () => void}} props */
function Answering({ ticket, onAnswered }) {
  if (ticket.status !== 'open') return html`<${Decided} ticket=${ticket} />`;
  if (isLate(ticket)) return html`<${Over}>This question expired <${When} at=${ticket.expires_at} isInSentence />: it counts as a no.</${Over}>`;
  if (!may('decide', 'invoke')) {
    return html`<div class="card"><b><${Text} of=${ticket.tool_name} /></b> waits for an answer by someone with the role decide.
      <h3>Arguments</h3><${Json} of=${ticket.arguments} /></div>`;
  }
  return html`<${AnswerForm} key=${ticket.digest} ticket=${ticket} onAnswered=${onAnswered} />`;
}

/** @param {{children: any}} props */
const Over = ({ children }) => html`<div class="card answered" role="status">${children}</div>`;

/** @type {Record<string, string>} */
const ENDS = {
  expired: 'This question expired: it counts as a no.',
  closed: 'This question was withdrawn: its run was cancelled, or went on with other words.',
};

/** @param {{ticket: any}} props */
function Decided({ ticket }) {
  const { decision, status } = ticket;
  if (!decision) return html`<${Over}>${ENDS[status] ?? `This question is ${status}.`}</${Over}>`;
  const given = decision.result;
  return html`<${Over}>
    <b><${Text} of=${ticket.tool_name} /></b> was ${wordOf(ticket)}${decision.by && html` by <b><${Text} of=${decision.by} /></b>`}, <${When} at=${decision.at} isInSentence />.
    ${decision.reason && html`<p class="said-block" dir="auto"><${Text} of=${decision.reason} /></p>`}
    ${given !== null && given !== undefined && html`<h3>Given</h3><${Json} of=${given} />`}
  </${Over}>`;
}

/** @param {any} ticket */
function wordOf({ decision, status }) {
  if (status === 'expired') return 'answered too late';
  if (decision.action === 'cancel') return 'denied';
  return decision.result === null ? 'approved' : 'answered';
}
