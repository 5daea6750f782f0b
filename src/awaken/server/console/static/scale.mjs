/**
 * Times → places on the timeline. No DOM.
 *
 * Time in which nothing happened and that is longer than a tenth of the work is cut out: a run that
 * waited for two days is as readable as one that did not.
 */

const GAP = 0.1;
const CUT_WIDTH = 0.02;
/** How many gaps are cut out, the longest first: each is a mark in the page. */
const MOST_CUTS = 20;

/**
 * @param {[number, number][]} busy when something was at work, in any order
 * @returns {{place: (at: number) => number, cuts: {at: number, ms: number}[]}} `place` gives a
 *   number from 0 to 1
 */
export function makeScale(busy) {
  const spans = merged(busy);
  if (!spans.length) return { place: () => 0, cuts: [] };
  const work = Math.max(1, spans.reduce((sum, [from, to]) => sum + to - from, 0));
  const gaps = spans.slice(1).map(([from], index) => from - spans[index][1]).sort((a, b) => b - a);
  const least = Math.max(1, work * GAP, gaps[MOST_CUTS] ?? 0);
  /** @type {{from: number, to: number, width: number, isCut: boolean}[]} */
  const parts = [];
  spans.forEach(([from, to], index) => {
    const before = spans[index - 1];
    if (before) {
      const isCut = from - before[1] > least;
      parts.push({ from: before[1], to: from, width: isCut ? work * CUT_WIDTH : from - before[1], isCut });
    }
    parts.push({ from, to, width: Math.max(to - from, 0.0001), isCut: false });
  });
  const total = parts.reduce((sum, part) => sum + part.width, 0);
  let left = 0;
  const placed = parts.map((part) => {
    const at = left / total;
    left += part.width;
    return { ...part, at, share: part.width / total };
  });
  const place = (/** @type {number} */ at) => {
    let low = 0;
    let high = placed.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (placed[middle].from <= at) low = middle;
      else high = middle - 1;
    }
    const part = placed[low];
    const within = part.to > part.from ? (at - part.from) / (part.to - part.from) : 0;
    return Math.min(1, Math.max(0, part.at + Math.min(1, Math.max(0, within)) * part.share));
  };
  const cuts = placed.filter((part) => part.isCut).map((part) => ({ at: part.at + part.share / 2, ms: part.to - part.from }));
  return { place, cuts };
}

/** @param {[number, number][]} spans */
function merged(spans) {
  /** @type {[number, number][]} */
  const found = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = found[found.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, Math.max(from, to)]);
  }
  return found;
}
