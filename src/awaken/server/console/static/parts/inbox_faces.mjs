/** The two faces of the inbox: what waits, and what was answered. */

import { keepInAddress, place } from '../router.mjs';
import { html } from '../view.mjs';

export function Faces() {
  const isHistory = place.value.query.show === 'history';
  return html`<button aria-pressed=${!isHistory} onClick=${() => keepInAddress({ show: null })}>waiting</button>
    <button aria-pressed=${isHistory} onClick=${() => keepInAddress({ show: 'history', ticket: null })}>history</button>`;
}
