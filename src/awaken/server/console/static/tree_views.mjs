/**
 * Views of a tree: the times of work, the rows that fit a filter, the runs that a cancel would reach.
 * No DOM.
 *
 * @typedef {import('./tree.mjs').Node} Node
 * @typedef {import('./tree.mjs').RunTree} RunTree
 */

const FAILED = ['failed', 'denied', 'expired', 'unknown'];

/** The log has no pieces of text: the text of a step comes from its row. @param {RunTree} tree
 * @param {Map<string, any>} rows */
export function fillWords(tree, rows) {
  for (const step of tree.root.children) {
    const row = rows.get(step.more.messageId);
    if (!row || step.text) continue;
    step.text = step.label = row.words;
    rows.delete(step.more.messageId);
  }
}

/** When the run was at work: waiting for people is not work. @param {RunTree} tree @param {number} time
 * @returns {[number, number][]} */
export function busyTimes(tree, time) {
  /** @type {[number, number][]} */
  const spans = [];
  for (const step of tree.root.children) {
    if (step.kind !== 'step') continue;
    let from = step.startedAt;
    for (const one of step.children) if (one.kind === 'model') from = Math.min(from, one.startedAt);
    spans.push([from, step.endedAt ?? Math.max(time, from)]);
    for (const call of step.children) if (call.more.answer && call.endedAt) spans.push([call.endedAt, call.endedAt]);
  }
  for (const { node } of tree.runs.values()) {
    if (node !== tree.root) spans.push([node.startedAt, node.endedAt ?? Math.max(time, node.startedAt)]);
  }
  return spans;
}

/** @param {Record<string, string>} query @param {RunTree} tree */
export function filterOf({ show, find }, tree) {
  const wanted = find?.toLowerCase();
  if (!show && !wanted) return null;
  const slow = show === 'slow' ? slowest(tree) : null;
  return (/** @type {any} */ node) => {
    if (show === 'failed' && !['failed', 'denied', 'expired'].includes(node.status)) return false;
    if (show === 'asks' && !(node.status === 'waits' && node.kind === 'call') && !node.more.answer) return false;
    if (slow && !slow.has(node)) return false;
    return !wanted || `${node.label} ${node.text}`.toLowerCase().includes(wanted);
  };
}

/** The calls above the 95th percentile of their tool or model. @param {RunTree} tree */
function slowest(tree) {
  /** @type {Map<string, any[]>} */
  const byName = new Map();
  for (const node of tree.nodes.values()) {
    if (node.endedAt === null || !['call', 'model'].includes(node.kind)) continue;
    byName.set(node.label, [...(byName.get(node.label) ?? []), node]);
  }
  const found = new Set();
  for (const nodes of byName.values()) {
    nodes.sort((a, b) => b.duration(0) - a.duration(0));
    nodes.slice(0, Math.ceil(nodes.length * 0.05)).forEach((node) => found.add(node));
  }
  return found;
}

/** The next failure behind a row, or before it with `by` -1. @param {RunTree} tree
 * @param {Node} from @param {number} by @returns {Node | undefined} */
export function failures(tree, from, by) {
  const every = tree.rows(() => true);
  const at = every.indexOf(from);
  const others = by > 0 ? every.slice(at + 1) : every.slice(0, Math.max(0, at)).reverse();
  return others.find((node) => node.kind !== 'step' && FAILED.includes(node.status));
}

/** What a cancel would stop: runs and calls that are under way, or wait. @param {RunTree} tree
 * @returns {{kind: string, name: string, id: string}[]} */
export function reach(tree) {
  /** @type {Record<string, string>} */
  const kinds = { run: 'run', agent: 'run', call: 'call' };
  return [...tree.nodes.values()]
    .filter((node) => node.kind in kinds && ['running', 'waits', 'created'].includes(node.status))
    .map((node) => ({ kind: kinds[node.kind], name: node.label, id: node.id }));
}

// -- Times → places on the timeline. No DOM. Time in which nothing happened and that is longer than
// a tenth of the work is cut out: a run that waited for two days is as readable as one that did
// not.

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
  const spans = mergeSpans(busy);
  if (!spans.length) return { place: () => 0, cuts: [] };
  const work = Math.max(1, spans.reduce((sum, [from, to]) => sum + to - from, 0));
  const long = Math.max(1, work * GAP);
  const gaps = spans.slice(1).map(([from], index) => from - spans[index][1]).filter((gap) => gap > long).sort((a, b) => b - a);
  const least = Math.max(long, gaps[MOST_CUTS] ?? 0);
  /** @type {{from: number, to: number, width: number, isCut: boolean, at: number, share: number}[]} */
  const placed = [];
  const put = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ width, isCut = false) =>
    placed.push({ from, to, width: Math.max(width, 0.0001), isCut, at: 0, share: 0 });
  let [from, to] = spans[0];
  for (const span of spans.slice(1)) {
    if (span[0] - to > least) {
      put(from, to, to - from);
      put(to, span[0], work * CUT_WIDTH, true);
      [from] = span;
    }
    [, to] = span;
  }
  put(from, to, to - from);
  const total = placed.reduce((sum, part) => sum + part.width, 0);
  let left = 0;
  for (const part of placed) {
    part.at = left / total;
    part.share = part.width / total;
    left += part.width;
  }
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
function mergeSpans(spans) {
  /** @type {[number, number][]} */
  const found = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = found[found.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else found.push([from, Math.max(from, to)]);
  }
  return found;
}
