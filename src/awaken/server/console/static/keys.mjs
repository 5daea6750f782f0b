/** Keys that act on the page. Whoever does not want them switches them off in the list of keys. */

import { signal, useEffect, useRef } from './view.mjs';

const FIELDS = 'input, textarea, select, [contenteditable], dialog';
const PLACE = 'awaken.keys';
const CHORD = 'g';
const CHORD_MS = 1500;

/** Whether single keys act; kept for the next visit. */
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

/** What keys do in the parts that are shown, those shown last first.
 * @type {Record<string, (event: KeyboardEvent) => void>[]} */
const parts = [];
let chordUntil = 0;

/** Have keys do something while a part is shown; `g i` is `g`, then `i`.
 * @param {Record<string, (event: KeyboardEvent) => void>} deeds */
export function useKeys(deeds) {
  const mine = useRef(deeds);
  mine.current = deeds;
  useEffect(() => {
    const latest = new Proxy({}, { get: (_, key) => mine.current[/** @type {string} */ (key)] });
    parts.unshift(latest);
    return () => void parts.splice(parts.indexOf(latest), 1);
  }, []);
}

addEventListener('keydown', (event) => {
  if (!isFree(event)) return;
  const name = Date.now() < chordUntil ? `${CHORD} ${event.key}` : event.key;
  chordUntil = name === CHORD ? Date.now() + CHORD_MS : 0;
  const deed = parts.find((deeds) => deeds[name])?.[name];
  if (!deed) return;
  event.preventDefault();
  deed(event);
});
