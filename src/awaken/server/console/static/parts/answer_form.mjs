/** How a question is answered: yes, no, with other arguments, with a value, with an amount. */

import { ApiError, part, post } from '../api.mjs';
import { fieldsOfSchema, fieldsOfValue, parse, readFields } from '../fields.mjs';
import { beginning, hasMarks } from '../format.mjs';
import { useKeys } from '../keys.mjs';
import { announce } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { Fields, rowsOf } from './fields.mjs';
import { Json } from './json.mjs';
import { Left, Text } from './text.mjs';

const VALUE = 'use_decision_as_tool_result';
const ARMED_MS = 3000;
const UNKNOWN = 'nobody knows whether it took effect: find out, or say so, before it is called again';

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
export function AnswerForm({ ticket, onAnswered }) {
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
    const said = word === 'no' ? { action: 'deny' } : draft.answer();
    decide(said, why);
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
      ${kind === 'outcome' && html`<button disabled=${isSending} onClick=${() => say('no', reason || UNKNOWN)}>Nobody knows</button>`}
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

/** A no by key asks for the reason first, and Enter sends it. Whoever came to the field otherwise
 * sends nothing with Enter: the reason may be one for a yes. */
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
  const decide = async (/** @type {any} */ { problem, ...said }, /** @type {string} */ reason) => {
    if (isSent.current) return;
    if (problem) return setWrong(problem);
    isSent.current = true;
    setIsSending(true);
    setWrong('');
    try {
      if (said.action === 'edit') await checkArguments(ticket, said.result);
      const answer = { ticket: ticket.key, digest: ticket.digest, ...said, ...(reason ? { reason } : {}) };
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

/** What was written so far, in fields or as text. @param {any} ticket @param {string} kind */
function useDraft(ticket, kind) {
  const fields = kind === 'approval' ? fieldsOfValue(ticket.arguments) : kind === 'value' ? fieldsOfSchema(ticket.response_schema) : null;
  const before = kind === 'approval' ? JSON.stringify(ticket.arguments, null, 2) : '';
  const [isText, setIsText] = useState(fields === null);
  const [texts, setTexts] = useState(/** @type {Record<string, string>} */ ({}));
  const [text, setText] = useState(before);
  const read = () => (isText || !fields ? readText(text, kind) : readFields(fields, texts));
  const now = read();
  const isChanged = kind !== 'approval' ? Boolean(text) : Boolean(now.problem) || JSON.stringify(now.value) !== JSON.stringify(ticket.arguments);
  return {
    kind, fields, texts, text, before, isText, isChanged, setText,
    setField: (/** @type {string} */ name, /** @type {string} */ said) => setTexts({ ...texts, [name]: said }),
    toggle() {
      if (!isText && now.value !== undefined) setText(JSON.stringify(now.value, null, 2));
      if (isText) setTexts({});
      setIsText(!isText);
    },
    after: now.value === undefined ? text : JSON.stringify(now.value, null, 2),
    answer() {
      if (now.problem) return now;
      if (kind === 'approval') return isChanged ? { action: 'edit', result: now.value } : { action: 'approve' };
      return { action: 'approve', ...(now.value === undefined ? {} : { result: now.value }) };
    },
  };
}

/** @param {string} text @param {string} kind @returns {{value?: any, problem?: string}} */
function readText(text, kind) {
  if (!text.trim() && kind !== 'approval') return kind === 'value' ? { problem: 'write an answer first' } : {};
  try {
    const value = parse(text);
    if (kind === 'budget' && !(typeof value === 'number' && value > 0)) throw new Error();
    return { value };
  } catch (error) {
    if (kind === 'budget') return { problem: 'write an amount: a number above 0' };
    if (kind !== 'approval') return { value: text };
    return { problem: `the arguments are not JSON: ${/** @type {Error} */ (error).message}` };
  }
}

/** @param {{draft: any, legend: string}} props */
function Draft({ draft, legend }) {
  const { fields, isText, kind } = draft;
  return html`
    ${fields && !isText ? html`<${Fields} fields=${fields} texts=${draft.texts} legend=${legend} onChange=${draft.setField} />`
      : html`<${Whole} draft=${draft} legend=${legend} />`}
    ${fields && html`<p class="as-json"><button type="button" onClick=${draft.toggle}>${isText ? 'as fields' : 'as JSON'}</button></p>`}
    ${draft.isChanged && kind === 'approval' && html`<${Difference} was=${draft.before} now=${draft.after} />`}`;
}

/** @param {{draft: any, legend: string}} props */
function Whole({ draft: { text, kind, isChanged, setText }, legend }) {
  const input = (/** @type {any} */ event) => setText(event.target.value);
  return html`<label class=${isChanged ? 'changed' : ''}>${legend}
    ${kind === 'budget' ? html`<input class="mono" inputmode="decimal" value=${text} placeholder="as much as before" onInput=${input} />`
      : html`<textarea class="mono" rows=${rowsOf(text)} value=${text} spellcheck=${kind === 'value'} onInput=${input}></textarea>`}
    ${hasMarks(text) && html`<small class="hidden-marks">with hidden characters: <${Text} of=${beginning(text, 2000)} /></small>`}</label>`;
}

/** @param {{was: string, now: string}} props */
function Difference({ was, now }) {
  const [before, after] = [was.split('\n'), now.split('\n')];
  const lines = [
    ...before.filter((line) => !after.includes(line)).map((line) => ['was', '−', line]),
    ...after.filter((line) => !before.includes(line)).map((line) => ['now', '+', line]),
  ];
  return html`<pre class="difference" aria-label="What is changed">${lines.map(([kind, sign, line], at) => html`<div key=${at} class=${kind}>${sign} <${Text} of=${line.trim()} /></div>`)}</pre>`;
}
