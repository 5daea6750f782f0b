/** A question that waits for an answer, or how it was answered. */

import { ApiError, get, may, part, post } from '../api.mjs';
import { useKeys } from '../router.mjs';
import { announce } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { changes } from '../wire.mjs';
import { Draft, useDraft } from './draft.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json, Left, now, Text, When } from './text.mjs';

/** The card of a ticket by its key. @param {{ticketKey: string}} props */
export function TicketCard({ ticketKey }) {
  const { value, error, again } = useLoaded(() => get(`/v1/tickets/${part(ticketKey)}`), [ticketKey, changes.value.get(ticketKey)]);
  if (error) return html`<div class="card"><${Failed} error=${error} onRetry=${again} /></div>`;
  if (!value) return html`<div class="card"><${Loading} /></div>`;
  return html`<${Answering} ticket=${value} onAnswered=${again} />`;
}

/** Whether the time for an answer is over, whatever the server has noticed. @param {any} ticket */
const isLate = (ticket) => Boolean(ticket.expires_at) && now.value >= ticket.expires_at;

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

// -- How a question is answered: yes, no, with other arguments, with a value, with an amount.

const VALUE = 'use_decision_as_tool_result';
const ARMED_MS = 3000;
const UNKNOWN = 'the approver could not find out whether the call took effect: find out, or say so, before it is called again';

/** What a ticket wants to know. @param {any} ticket */
export function kindOf({ reason, answer }) {
  if (reason === 'outcome_unknown') return 'outcome';
  if (reason === 'budget:limit') return 'budget';
  return answer === VALUE ? 'value' : 'approval';
}

/** The words of each kind of question. @type {Record<string, {yes: string, no: string, field: string}>} */
const WORDS = {
  approval: { yes: 'Approve', no: 'Deny', field: 'Arguments' },
  value: { yes: 'Answer', no: 'Refuse', field: 'Your answer' },
  outcome: { yes: 'It happened', no: 'It did not happen', field: 'Its result, if you know it' },
  budget: { yes: 'Allow', no: 'End the run', field: 'How much more' },
};

/** @param {{ticket: any, onAnswered: () => void}} props */
function AnswerForm({ ticket, onAnswered }) {
  const kind = kindOf(ticket);
  const words = WORDS[kind];
  const draft = useDraft(ticket, kind);
  const [reason, setReason] = useState('');
  const { wrong, isSending, decide } = useDeciding(ticket, onAnswered);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const armed = useArmed();
  const denying = useDenying();

  useEffect(() => announce(`${ticket.tool_name} waits for an answer`), [ticket.key]);

  const say = (/** @type {'yes' | 'no'} */ word, why = reason) => {
    const decision = word === 'no' ? { action: 'deny' } : draft.answer();
    decide(decision, why);
  };
  const press = (/** @type {'yes' | 'no'} */ word) => {
    if (!isFirst(box.current)) return;
    if (word === 'no') return denying.begin(field(box.current, 'input.why'));
    if (armed.is()) say('yes');
    else armed.arm(field(box.current, 'button.yes'));
  };
  useKeys({
    a: () => press('yes'),
    d: () => press('no'),
    e: () => isFirst(box.current) && field(box.current, 'input, textarea, select')?.focus(),
  });
  const onWhyKey = (/** @type {KeyboardEvent} */ event) => denying.on && event.key === 'Enter' && !event.isComposing && say('no');

  return html`<section class="card" ref=${box} aria-label=${`Answer ${ticket.tool_name}`}>
    <p><b><${Text} of=${ticket.tool_name} /></b> waits for an answer${ticket.expires_at ? html`, <${Left} until=${ticket.expires_at} />` : ''}.</p>
    ${ticket.message && !isPlain(ticket) && html`<p class="said-block" dir="auto"><${Text} of=${ticket.message} /></p>`}
    ${(kind === 'value' || kind === 'outcome') && html`<h3>Asked with</h3><${Json} of=${ticket.arguments} />`}
    <${Draft} draft=${draft} legend=${kind === 'budget' ? `${words.field} (${ticket.arguments.limit})` : words.field} />
    <label>Why (kept with the answer)
      <input class="why" value=${reason} onKeyDown=${onWhyKey} onBlur=${denying.end}
        onInput=${(/** @type {any} */ event) => setReason(event.target.value)} /></label>
    ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
    <div class="acts">
      <button class="yes" disabled=${isSending} onClick=${() => say('yes')}>${draft.isChanged && kind === 'approval' ? 'Approve as edited' : words.yes}<kbd>a</kbd></button>
      <button class="no" disabled=${isSending} onClick=${() => say('no')}>${words.no}<kbd>d</kbd></button>
      ${kind === 'outcome' && html`<button disabled=${isSending} onClick=${() => say('no', reason || UNKNOWN)}>I could not find out</button>`}
      <small role="status">${armed.on ? 'press a again, or Enter' : denying.on ? 'Enter says no' : ''}</small>
    </div>
  </section>`;
}

/** Whether the question in words says no more than its heading. @param {any} ticket */
const isPlain = ({ message, tool_name: name }) => message === `Approve ${name}?`;

/** Keys answer the first question on a page that has several. @param {HTMLElement | null} card */
const isFirst = (card) => card !== null && document.querySelector('section.card') === card;

/** @param {HTMLElement | null} card @param {string} selector @returns {HTMLElement | null} */
const field = (card, selector) => /** @type {HTMLElement | null} */ (card?.querySelector(selector) ?? null);

/** A yes by key takes two presses within three seconds. */
function useArmed() {
  const until = useRef(0);
  const [on, setOn] = useState(false);
  return {
    on,
    is: () => Date.now() < until.current,
    arm(/** @type {HTMLElement | null} */ button) {
      button?.focus();
      until.current = Date.now() + ARMED_MS;
      setOn(true);
      setTimeout(() => setOn(Date.now() < until.current), ARMED_MS + 50);
    },
  };
}

/** A no by key asks for the reason first, and Enter sends it. If the field was reached otherwise, Enter
 * sends nothing: the reason may be one for a yes. */
function useDenying() {
  const [on, setOn] = useState(false);
  return {
    on,
    begin(/** @type {HTMLElement | null} */ why) {
      why?.focus();
      setOn(true);
    },
    end: () => setOn(false),
  };
}

/** Sends an answer, once: not again for a double click, or a key that is held down.
 * @param {any} ticket @param {() => void} onAnswered */
function useDeciding(ticket, onAnswered) {
  const [wrong, setWrong] = useState('');
  const [isSending, setIsSending] = useState(false);
  const isSent = useRef(false);
  const decide = async (/** @type {any} */ { problem, ...decision }, /** @type {string} */ reason) => {
    if (isSent.current) return;
    if (problem) return setWrong(problem);
    isSent.current = true;
    setIsSending(true);
    setWrong('');
    try {
      if (decision.action === 'edit') await checkArguments(ticket, decision.result);
      const answer = { ticket: ticket.key, digest: ticket.digest, ...decision, ...(reason ? { reason } : {}) };
      await post(`/v1/runs/${part(ticket.run_id)}/decisions`, [answer]);
      onAnswered();
    } catch (error) {
      isSent.current = false;
      setWrong(wordsOf(error));
      if (error instanceof ApiError && error.details.ticket) onAnswered();
    }
    setIsSending(false);
  };
  return { wrong, isSending, decide };
}

/** @param {any} ticket @param {any} given */
async function checkArguments(ticket, given) {
  const { problem } = await post(`/v1/tickets/${part(ticket.key)}/arguments`, { arguments: given });
  if (problem) throw new Error(problem);
}

/** @param {any} error */
function wordsOf(error) {
  if (error.code === 'question_changed') return 'the question has changed: look at it again';
  if (error.status === 0) return `${error.message}: whether the answer has arrived shows when it is back`;
  return error.message;
}
