/** The overview: one mark for each step, coloured by what went wrong, and the time that was cut out. */

import { took } from '../format.mjs';
import { html } from '../view.mjs';

const MOST = 600;

/** @param {{steps: any[], scale: any, now: number, onSelect: (node: any) => void}} props */
export function Strip({ steps, scale, now, onSelect }) {
  const every = Math.max(1, Math.ceil(steps.length / MOST));
  const shown = steps.filter((step, index) => index % every === 0 || ['failed', 'waits', 'denied'].includes(step.status));
  const most = Math.max(1, ...shown.map((step) => step.tokens));
  return html`<div class="strip">
    <svg role="img" aria-label=${`${steps.length} steps over time`} viewBox="0 0 1000 26" preserveAspectRatio="none">
      ${shown.map((step) => {
        const left = scale.place(step.startedAt) * 1000;
        const right = scale.place(step.endedAt ?? now) * 1000;
        const height = 6 + 18 * (step.tokens / most);
        return html`<rect key=${step.id} class=${step.status} x=${left} y=${24 - height} height=${height}
          width=${Math.max(2, right - left - 1)} onClick=${() => onSelect(step)}><title>step ${step.more.number}</title></rect>`;
      })}
      ${scale.cuts.map((/** @type {any} */ cut) => html`<line x1=${cut.at * 1000} x2=${cut.at * 1000} y1="0" y2="26"><title>${took(cut.ms)} without work</title></line>`)}
    </svg>
  </div>`;
}
