/** The address is the state of the view: a link shows a colleague the same thing. */

import { ROOT } from './api.mjs';
import { signal, useLayoutEffect, useRef } from './view.mjs';

const HOME = `${ROOT}/console/`;

/** @returns {{parts: string[], query: Record<string, string>}} */
function read() {
  const parts = location.pathname.slice(HOME.length).split('/').filter(Boolean);
  return {
    parts: parts.map(decodeURIComponent),
    query: Object.fromEntries(new URLSearchParams(location.search)),
  };
}

export const place = signal(read());

/** @param {string[]} parts @param {Record<string, string>} [query] */
export function addressOf(parts, query = {}) {
  const text = new URLSearchParams(query).toString();
  return HOME + parts.map(encodeURIComponent).join('/') + (text ? `?${text}` : '');
}

/** @param {string} address */
export function go(address) {
  history.pushState(null, '', address);
  place.value = read();
}

/** Go elsewhere without a new entry in the history. @param {string} address */
export function replaceAddress(address) {
  history.replaceState(null, '', address);
  place.value = read();
}

/** Change a part of the query, without a new entry in the history.
 * @param {Record<string, string | null>} changes */
export function keepInAddress(changes) {
  const { parts, query } = place.value;
  const now = { ...query };
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') delete now[name];
    else now[name] = value;
  }
  replaceAddress(addressOf(parts, now));
}

addEventListener('popstate', () => (place.value = read()));

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const isPlain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!link || !isPlain || link.target || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(HOME) || link.hasAttribute('download')) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

// -- Keys that act on the page. The list of keys has a switch that turns them off.

const FIELDS = 'input, textarea, select, [contenteditable], dialog';
const PLACE = 'awaken.keys';
const CHORD = 'g';
const CHORD_MS = 1500;

/** Whether single keys act; stored for the next visit. */
export const areOn = signal(localStorage.getItem(PLACE) !== 'off');

/** @param {boolean} isOn */
export function switchKeys(isOn) {
  areOn.value = isOn;
  localStorage.setItem(PLACE, isOn ? 'on' : 'off');
}

/** Whether a key is meant for the page: no field has the focus, no dialogue is open, and it was
 * pressed alone, once. @param {KeyboardEvent} event */
export function isFree(event) {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
  const isElsewhere = !(event.target instanceof Element && event.target.closest(FIELDS));
  return areOn.value && isPlain && isElsewhere && !event.defaultPrevented && !document.querySelector('dialog[open]');
}

/** The handlers of keys in the visible parts of the page, the latest part first.
 * @type {Record<string, (event: KeyboardEvent) => void>[]} */
const parts = [];
let chordUntil = 0;

/** Register handlers of keys while a part is visible; `g i` is `g`, then `i`.
 * @param {Record<string, (event: KeyboardEvent) => void>} handlers */
export function useKeys(handlers) {
  const mine = useRef(handlers);
  mine.current = handlers;
  // Registered before the page is painted: a key that is pressed at once is handled.
  useLayoutEffect(() => {
    const latest = new Proxy({}, { get: (_, key) => mine.current[/** @type {string} */ (key)] });
    parts.unshift(latest);
    return () => void parts.splice(parts.indexOf(latest), 1);
  }, []);
}

addEventListener('keydown', (event) => {
  if (!isFree(event)) return;
  const name = Date.now() < chordUntil ? `${CHORD} ${event.key}` : event.key;
  chordUntil = name === CHORD ? Date.now() + CHORD_MS : 0;
  const handler = parts.find((handlers) => handlers[name])?.[name];
  if (!handler) return;
  event.preventDefault();
  handler(event);
});
