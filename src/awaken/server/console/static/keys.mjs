/** Keys that act on the page. */

const FIELDS = 'input, textarea, select, [contenteditable], dialog';

/** Whether a key is meant for the page: no field has the focus, no dialogue is open, and it was
 * pressed alone, once. @param {KeyboardEvent} event */
export function isFree(event) {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat;
  const isElsewhere = !(event.target instanceof Element && event.target.closest(FIELDS));
  return isPlain && isElsewhere && !document.querySelector('dialog[open]');
}
