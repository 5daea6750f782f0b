/** What pages and parts are written with. */

import { h } from './vendor/preact.mjs';
import htm from './vendor/htm.mjs';

export { render } from './vendor/preact.mjs';
export { useEffect, useMemo, useRef, useState } from './vendor/hooks.mjs';
export { batch, computed, effect, signal } from './vendor/signals.mjs';

export const html = htm.bind(h);
