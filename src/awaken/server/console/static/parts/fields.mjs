/** Fields of a form, one for each argument or part of an answer. */

import { textOfField } from '../fields.mjs';
import { hasMarks } from '../format.mjs';
import { html } from '../view.mjs';
import { Text } from './text.mjs';

const LONG = 60;

/** @param {{fields: import('../fields.mjs').Field[], texts: Record<string, string>, legend: string,
 *   onChange: (name: string, text: string) => void}} props */
export function Fields({ fields, texts, legend, onChange }) {
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

/** @param {{field: import('../fields.mjs').Field, text: string, onInput: (event: Event) => void}} props */
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
export const rowsOf = (text) => Math.min(12, Math.max(2, text.split('\n').length, Math.ceil(text.length / LONG)));
