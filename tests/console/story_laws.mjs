// The laws of `tree.mjs` over recorded stories: what a watcher saw is what the log tells.

import { readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';

const [folder, file] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const { RunTree } = await load('tree.mjs');
const { fillWords, busyTimes } = await load('tree_views.mjs');
const { makeScale } = await load('tree_views.mjs');

const grow = (runId, told, words) => {
  const tree = new RunTree(runId);
  told.forEach((event) => tree.take(structuredClone(event)));
  fillWords(tree, new Map(Object.entries(words).map(([id, said]) => [id, { words: said }])));
  return tree;
};
const shown = (tree) => tree.rows().map((node) => [
  node.depth, node.kind, node.label, node.status, node.tokens, node.cost, node.startedAt, node.endedAt,
  node.more.arguments ?? null, node.more.result ?? null,
]);

const stories = JSON.parse(readFileSync(file, 'utf8'));
const kinds = new Set();
for (const { name, run_id: runId, live, stored, words, sums } of stories) {
  const expected = shown(grow(runId, stored, words));
  assert.ok(expected.length > 1, name);
  assert.deepEqual(shown(grow(runId, live, words)), expected, `${name}: live is not the log`);

  // However a stream is cut, and taken up with what the log has by then, the tree is the same.
  for (let at = 0; at <= live.length; at += 1) {
    assert.deepEqual(shown(grow(runId, [...live.slice(0, at), ...stored], words)), expected, `${name}: cut at ${at}`);
  }

  // Sums are those of the records, with delegates and summaries counted once.
  for (const [id, { tokens, cost }] of Object.entries(sums)) {
    const tree = grow(id, stored, words);
    const { root } = tree;
    for (const { kind, label } of tree.rows()) kinds.add(kind === 'mark' ? label : kind);
    assert.equal(root.tokens, tokens, `${name}: tokens`);
    assert.ok(Math.abs((root.cost ?? 0) - cost) < 1e-9, `${name}: cost ${root.cost} is not ${cost}`);
  }
}
for (const kind of ['run', 'agent', 'step', 'model', 'call', 'taken up again after its process had gone']) assert.ok(kinds.has(kind), kind);
assert.ok([...kinds].some((kind) => kind.endsWith('became a summary')));

// A run that waited two days for a person is readable: the wait is one mark, and what was work stays wide.
const days = 2 * 86_400_000;
const { run_id: runId, stored, words } = stories.find((story) => story.name === 'suspended twice');
const answered = stored.findIndex((told) => told.event.event_type === 'run_start' && told.event.cause === 'answered');
const later = stored.map((told, at) => ({ ...told, at_ms: 1_000 + at * 10 + (at < answered ? 0 : days) }));
const waited = grow(runId, later, words);
const scale = makeScale(busyTimes(waited, 0));
assert.equal(scale.cuts.filter((cut) => cut.ms > days / 2).length, 1);
const [first, second] = waited.root.children.filter((node) => node.kind === 'step');
assert.ok(second.startedAt - first.endedAt > days / 2);
assert.ok(scale.place(second.startedAt) - scale.place(first.endedAt) < 0.1);
