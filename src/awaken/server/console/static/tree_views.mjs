/**
 * What a page shows of a tree: when it was at work, what fits a filter, what a cancel would reach.
 * No DOM.
 *
 * @typedef {import('./tree.mjs').Node} Node
 * @typedef {import('./tree.mjs').RunTree} RunTree
 */

const FAILED = ['failed', 'denied', 'expired', 'unknown'];

/** The log has no pieces of text: what a step said comes from its row. @param {RunTree} tree
 * @param {Map<string, any>} rows */
export function fillWords(tree, rows) {
  for (const step of tree.root.children) {
    const row = rows.get(step.more.messageId);
    if (!row || step.said) continue;
    step.said = step.label = row.words;
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
    const models = step.children.filter((one) => one.kind === 'model');
    const from = Math.min(step.startedAt, ...models.map((one) => one.startedAt));
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
    return !wanted || `${node.label} ${node.said}`.toLowerCase().includes(wanted);
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
