/** The address is the state of the view: a link shows a colleague the same thing. */

import { signal } from './view.mjs';

const HOME = '/console/';

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
export function goInstead(address) {
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
  goInstead(addressOf(parts, now));
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
