/** A question that waits for an answer, and its form. */

import { ApiError, get, part, post } from '../api.mjs';
import { may } from '../session.mjs';
import { announce } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json } from './json.mjs';
import { Text, When } from './text.mjs';
import { changes } from '../tickets.mjs';

/** The card of a ticket by its key. @param {{ticketKey: string}} props */
export function TicketCard({ ticketKey }) {
  const { value, error, again } = useLoaded(() => get(`/v1/tickets/${part(ticketKey)}`), [ticketKey, changes.value.get(ticketKey)]);
  if (error) return html`<div class="card"><${Failed} error=${error} onRetry=${again} /></div>`;
  if (!value) return html`<div class="card"><${Loading} /></div>`;
  return html`<${Answering} ticket=${value} onAnswered=${again} />`;
}

/** @param {{ticket: any, onAnswered?: () => void}} props */
export function Answering({ ticket, onAnswered }) {
  if (ticket.status !== 'open') return html`<${Decided} ticket=${ticket} />`;
  if (!may('decide', 'invoke')) {
    return html`<div class="card"><b><${Text} of=${ticket.tool_name} /></b> waits for an answer by someone with the role decide.</div>`;
  }
  return html`<${Form} key=${ticket.digest} ticket=${ticket} onAnswered=${onAnswered} />`;
}

/** @param {{ticket: any}} props */
export function Decided({ ticket }) {
  const { decision } = ticket;
  if (!decision) return html`<div class="card answered" role="status">This question was ${ticket.status}: no answer is needed any more.</div>`;
  const word = decision.action === 'cancel' ? 'denied' : 'answered with yes';
  return html`<div class="card answered" role="status">
    <b><${Text} of=${ticket.tool_name} /></b> was ${word}${decision.by && html` by <b><${Text} of=${decision.by} /></b>`}, <${When} at=${decision.at} isInSentence />.
    ${decision.reason && html`<p class="said-block"><${Text} of=${decision.reason} /></p>`}
  </div>`;
}

export const WANTS_VALUE = 'use_decision_as_tool_result';
const OUTCOME_UNKNOWN = 'outcome_unknown';

/** @param {{ticket: any, onAnswered?: () => void}} props */
function Form({ ticket, onAnswered }) {
  const wantsValue = ticket.answer === WANTS_VALUE;
  const isOutcome = ticket.reason === OUTCOME_UNKNOWN;
  const before = JSON.stringify(wantsValue ? {} : ticket.arguments, null, 2);
  const [text, setText] = useState(wantsValue ? '' : before);
  const [reason, setReason] = useState('');
  const [wrong, setWrong] = useState('');
  const [isSending, setIsSending] = useState(false);
  const sent = useRef(false);
  const isChanged = !wantsValue && text !== before;

  useEffect(() => {
    announce(`${ticket.tool_name} waits for an answer`);
  }, [ticket.key]);

  const decide = async (/** @type {'approve' | 'edit' | 'deny'} */ action) => {
    if (sent.current) return; // a double click, or a key that is held down, decides once
    /** @type {any} */
    const answer = { ticket: ticket.key, action, digest: ticket.digest };
    if (reason) answer.reason = reason;
    if (action === 'edit' || (wantsValue && action === 'approve')) {
      const read = isOutcome && !text.trim() ? {} : valueOf(text, wantsValue);
      if (read.problem) return setWrong(read.problem);
      if (read.value !== undefined) answer.result = read.value;
    }
    sent.current = true;
    setIsSending(true);
    setWrong('');
    try {
      if (action === 'edit') {
        const { problem } = await post(`/v1/tickets/${part(ticket.key)}/arguments`, { arguments: answer.result });
        if (problem) throw new Error(problem);
      }
      await post(`/v1/runs/${part(ticket.run_id)}/decisions`, [answer]);
      onAnswered?.();
    } catch (error) {
      sent.current = false;
      if (error instanceof ApiError && error.details.ticket) onAnswered?.();
      if (error instanceof ApiError && error.code === 'question_changed') setWrong('the question has changed: look at it again');
      else setWrong(/** @type {Error} */ (error).message);
    }
    setIsSending(false);
  };

  return html`<section class="card" aria-label=${`Answer ${ticket.tool_name}`}>
    <p><b><${Text} of=${ticket.tool_name} /></b> waits for an answer${ticket.expires_at ? html`, until it expires` : ''}.</p>
    ${(ticket.message || ticket.reason) && html`<p class="said-block"><${Text} of=${ticket.message || ticket.reason} /></p>`}
    ${wantsValue && html`<${Json} of=${ticket.arguments} />`}
    <label class=${isChanged ? 'changed' : ''}>${isOutcome ? 'Its result, if you know it' : wantsValue ? 'Your answer' : 'Arguments'}
      <textarea rows=${Math.min(12, text.split('\n').length + 1)} value=${text} spellcheck=${wantsValue}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}></textarea></label>
    ${isChanged && html`<${Difference} was=${before} now=${text} />`}
    <label>Why (kept with the answer)
      <input value=${reason} onInput=${(/** @type {any} */ event) => setReason(event.target.value)} /></label>
    ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
    <div class="acts">
      <button class="yes" disabled=${isSending} onClick=${() => decide(isChanged ? 'edit' : 'approve')}>
        ${isOutcome ? 'It happened' : wantsValue ? 'Answer' : isChanged ? 'Approve as edited' : 'Approve'}</button>
      <button class="no" disabled=${isSending} onClick=${() => decide('deny')}>${isOutcome ? 'It did not happen' : 'Deny'}</button>
    </div>
  </section>`;
}

/** @param {string} text @param {boolean} mayBeText @returns {{value?: any, problem?: string}} */
function valueOf(text, mayBeText) {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    if (mayBeText) return text.trim() ? { value: text } : { problem: 'write an answer first' };
    return { problem: `the arguments are not JSON: ${/** @type {Error} */ (error).message}` };
  }
}

/** @param {{was: string, now: string}} props */
function Difference({ was, now }) {
  const [before, after] = [was.split('\n'), now.split('\n')];
  const gone = before.filter((line) => !after.includes(line));
  const come = after.filter((line) => !before.includes(line));
  return html`<pre class="difference">${gone.map((line) => html`<div class="was">− <${Text} of=${line} /></div>`)}
    ${come.map((line) => html`<div class="now">+ <${Text} of=${line} /></div>`)}</pre>`;
}
