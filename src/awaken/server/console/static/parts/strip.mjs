/** The overview: one mark for each step, coloured by what went wrong, and the time that was cut out. */

import { took } from '../format.mjs';
import { html } from '../view.mjs';

const WIDE = 1000;
const HIGH = 20;
const STATUSES = ['succeeded', 'running', 'cancelled', 'denied', 'waits', 'failed'];

/** @param {{steps: any[], scale: any, now: number, onSelect: (node: any) => void}} props */
export function Strip({ steps, scale, now, onSelect }) {
  const most = steps.reduce((found, step) => Math.max(found, step.tokens), 1);
  /** @type {Map<string, string>} one path for each status, however many steps there are */
  const paths = new Map(STATUSES.map((status) => [status, '']));
  for (const step of steps) {
    const left = scale.place(step.startedAt) * WIDE;
    const width = Math.max(1.5, scale.place(step.endedAt ?? now) * WIDE - left - 1);
    const height = 5 + (HIGH - 6) * (step.tokens / most);
    const status = paths.has(step.status) ? step.status : 'succeeded';
    paths.set(status, `${paths.get(status)}M${left.toFixed(1)} ${HIGH}v-${height.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}z`);
  }
  const select = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    const before = steps.filter((step) => scale.place(step.startedAt) <= at);
    onSelect(before[before.length - 1] ?? steps[0]);
  };
  return html`<div class="strip">
    <svg role="img" aria-label=${`${steps.length} steps over time`} viewBox=${`0 0 ${WIDE} ${HIGH}`}
      preserveAspectRatio="none" onClick=${steps.length ? select : undefined}>
      ${[...paths].map(([status, path]) => path && html`<path key=${status} class=${status} d=${path}></path>`)}
      ${scale.cuts.map((/** @type {any} */ cut) => html`<line key=${cut.at} x1=${cut.at * WIDE} x2=${cut.at * WIDE}
        y1="0" y2=${HIGH}><title>${took(cut.ms)} without work</title></line>`)}
    </svg>
  </div>`;
}
