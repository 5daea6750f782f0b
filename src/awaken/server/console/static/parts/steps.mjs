/** The step that a row of the tree belongs to. */

import { html } from '../view.mjs';

/** @param {any} node */
export function stepOf(node) {
  for (let one = node; one; one = one.parent) if (one.kind === 'step') return one;
  return null;
}

export const NoStep = () => html`<p class="sub">Choose a step, or a call in one.</p>`;
