/** The form of an answer: fields, or JSON, and how it differs from the question's arguments. */

import { beginning, hasMarks } from '../format.mjs';
import { fieldsOfSchema, fieldsOfValue, parse, readFields, textOfField } from '../json.mjs';
import { html, useState } from '../view.mjs';
import { Text } from './text.mjs';

/** What was written so far, in fields or as text. @param {any} ticket @param {string} kind */
export function useDraft(ticket, kind) {
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
    setField: (/** @type {string} */ name, /** @type {string} */ text) => setTexts({ ...texts, [name]: text }),
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
export function Draft({ draft, legend }) {
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

// -- Fields of a form, one for each argument or part of an answer.

const LONG = 60;

/** @param {{fields: import('../json.mjs').Field[], texts: Record<string, string>, legend: string,
 *   onChange: (name: string, text: string) => void}} props */
function Fields({ fields, texts, legend, onChange }) {
  return html`<fieldset class="fields"><legend>${legend}</legend>
    ${fields.map((field) => {
      const was = textOfField(field);
      const text = texts[field.name] ?? was;
      const isChanged = field.was !== undefined && text !== was;
      const input = (/** @type {any} */ event) => onChange(field.name, event.target.value);
      return html`<label key=${field.name} class=${isChanged ? 'changed' : ''}><${Text} of=${field.title} />
        <${Input} field=${field} text=${text} onInput=${input} />
        ${hasMarks(text) && html`<small class="hidden-marks">with hidden characters: <${Text} of=${text} /></small>`}
        ${isChanged && html`<small>was <${Text} of=${was} /></small>`}</label>`;
    })}</fieldset>`;
}

/** @param {{field: import('../json.mjs').Field, text: string, onInput: (event: Event) => void}} props */
function Input({ field, text, onInput }) {
  if (field.kind === 'choice') {
    return html`<select value=${text} onChange=${onInput}>${field.was === undefined && html`<option value=""></option>`}
      ${field.choices?.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`;
  }
  const isLong = field.kind === 'json' || text.length > LONG || text.includes('\n');
  if (isLong) return html`<textarea class="mono" rows=${rowsOf(text)} value=${text} onInput=${onInput}></textarea>`;
  return html`<input class="mono" inputmode=${field.kind === 'number' ? 'decimal' : undefined} value=${text} onInput=${onInput} />`;
}

/** How many rows a text takes, within reason. @param {string} text */
const rowsOf = (text) => Math.min(12, Math.max(2, text.split('\n').length, Math.ceil(text.length / LONG)));
