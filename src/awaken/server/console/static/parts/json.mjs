/** A JSON value as a tree that opens. */

import { isExact } from '../fields.mjs';
import { html } from '../view.mjs';
import { Text } from './text.mjs';

const DEEPEST = 64;
const MOST = 200;
const OPEN_UNTIL = 2;

/** @param {{of: any, depth?: number}} props */
export function Json({ of, depth = 0 }) {
  return html`<div class="json"><${Value} of=${of} depth=${depth} /></div>`;
}

/** @param {{of: any, depth: number}} props */
function Value({ of, depth }) {
  if (of === null || typeof of !== 'object' || isExact(of)) return html`<${Plain} of=${of} />`;
  const pairs = Array.isArray(of) ? of.map((value, index) => [index, value]) : Object.entries(of);
  const [left, right] = Array.isArray(of) ? '[]' : '{}';
  if (!pairs.length) return html`<span>${left}${right}</span>`;
  if (depth >= DEEPEST) return html`<span>${left}… nested too deeply …${right}</span>`;
  return html`<details open=${depth < OPEN_UNTIL}>
    <summary>${left}${pairs.length}${right}</summary>
    ${pairs.slice(0, MOST).map(([key, value]) => html`<div class="pair" key=${key}>
      <span class="key"><${Text} of=${key} /></span>${' '}<${Value} of=${value} depth=${depth + 1} />
    </div>`)}
    ${pairs.length > MOST && html`<div class="pair">… and ${pairs.length - MOST} more</div>`}
  </details>`;
}

/** @param {{of: any}} props */
function Plain({ of }) {
  if (isExact(of)) return html`<span class="number">${JSON.stringify(of)}</span>`;
  const kind = of === null ? 'null' : typeof of;
  return html`<span class=${kind}><${Text} of=${kind === 'string' ? JSON.stringify(of) : of} /></span>`;
}
