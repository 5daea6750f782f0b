// The laws of `tree.mjs`, over the events of a real story; its file is the argument.

import { readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { pathToFileURL } from 'node:url';

const [folder, story] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${folder}/${name}`));
const { RunTree } = await load('tree.mjs');
const { makeScale } = await load('tree_views.mjs');
const { money, pieces } = await load('format.mjs');
const { run_id: runId, events } = JSON.parse(readFileSync(story, 'utf8'));

const shown = (tree) =>
  tree.rows().map((node) => [node.depth, node.kind, node.label, node.status, node.tokens, node.cost, node.startedAt, node.endedAt]);

const grow = (told) => {
  const tree = new RunTree(runId);
  told.forEach((event) => tree.take(event));
  return tree;
};

const whole = grow(events);
assert.ok(whole.rows().length > 10);

// A stream that is cut at any event and goes on with some events again gives the same tree.
for (let at = 0; at <= events.length; at += 1) {
  const again = Math.max(0, at - 3);
  assert.deepEqual(shown(grow([...events.slice(0, at), ...events.slice(again)])), shown(whole), `cut at ${at}`);
}

// Two calls with one provider's id, in two steps, are two rows.
const calls = whole.rows().filter((node) => node.kind === 'call' && node.more.callId === 'c0' && node.runId === runId);
assert.equal(calls.length, 2);
assert.equal(new Set(calls.map((node) => node.id)).size, 2);

// A delegate's run hangs beneath the call that asked for it.
const clerk = whole.rows().find((node) => node.kind === 'agent');
assert.equal(clerk.parent.label, 'agent_run_clerk');

// Sums count each model call once.
const models = [...whole.nodes.values()].filter((node) => node.kind === 'model');
assert.equal(whole.root.tokens, models.reduce((sum, node) => sum + node.tokens, 0));
assert.ok(Math.abs(whole.root.cost - models.reduce((sum, node) => sum + node.cost, 0)) < 1e-9);

// Steps that are known by their rows are not counted again when their events come: a long run's rows
// are read while it goes on. What the server leaves out is what is usual.
const own = events.filter((told) => told.run_id === runId);
const steps = grow(own).root.children.filter((node) => node.kind === 'step');
const rows = steps.map((node) => ({
  step: node.more.number, message_id: node.more.messageId, seq: 1, started_at_ms: node.startedAt, ended_at_ms: node.endedAt,
  input_tokens: node.input, output_tokens: node.output, cost: node.cost, words: node.text,
  ...(node.status === 'succeeded' ? {} : { outcome: node.status }),
}));
for (let known = 0; known <= rows.length; known += 1) {
  const outlined = new RunTree(runId);
  outlined.root.threadId = own[0].thread_id;
  outlined.outline(rows.slice(0, known));
  own.forEach((event) => outlined.take(event));
  assert.equal(outlined.root.tokens, grow(own).root.tokens, `${known} steps were known`);
  assert.deepEqual(outlined.root.children.filter((node) => node.kind === 'step').map((node) => node.status), steps.map((node) => node.status));
}

// A price that is not known is unknown in its row and in every sum above it.
const unpriced = grow(events.map((told) => (told.event.cost === undefined ? told : { ...told, event: { ...told.event, cost: null } })));
assert.equal(money(unpriced.root.cost, unpriced.root.hasUnknownCost), '—');

// A reset takes back the text that was shown, and the calls that were not written to their end.
const start = events.find((told) => told.event.event_type === 'step_start');
const live = (event) => ({ thread_id: start.thread_id, run_id: runId, at_ms: start.at_ms, event });
const upTo = events.slice(0, events.indexOf(start) + 1);
const tree = grow([...upTo, live({ event_type: 'text_delta', delta: 'I thi' }), live({ event_type: 'tool_call_start', id: 'x', name: 'pay' })]);
assert.equal(tree.root.children[0].text, 'I thi');
assert.equal(tree.root.children[0].children.length, 1);
tree.take(live({ event_type: 'stream_reset', reason: 'again' }));
assert.equal(tree.root.children[0].text, '');
assert.deepEqual(shown(tree), shown(grow(upTo)));

// A run that waited for two days is readable: the wait is one cut.
const days = 2 * 86_400_000;
const scale = makeScale([[0, 1000], [1000 + days, 2000 + days]]);
assert.equal(scale.cuts.length, 1);
assert.ok(scale.place(1000) > 0.45 && scale.place(1000 + days) < 0.55);
assert.equal(scale.place(2000 + days), 1);

// However often nothing happened, few gaps are cut out.
assert.ok(makeScale(Array.from({ length: 400 }, (_, at) => [at * 50, at * 50 + 1])).cuts.length <= 20);

// The difference of two values, applied to the one, gives the other.
const { changesBetween, withChanges } = await load('json.mjs');
const values = [{}, { a: 1 }, { a: { b: [1, 2], c: null } }, { a: { b: [1], d: 'x' }, e: false }, { a: [], 'e.f': 0 }, { a: { b: { b: {} } } }];
for (const before of values) for (const after of values) {
  assert.deepEqual(withChanges(before, changesBetween(before, after)), after);
}
assert.deepEqual(changesBetween({ a: 1, b: { c: 2 } }, { a: 1, b: { c: 3 } }), [{ path: ['b', 'c'], before: 2, after: 3 }]);

// Characters that would hide or turn a text are marks.
assert.deepEqual(pieces('a\u202eb').map((piece) => piece.mark ?? piece.text), ['a', 'U+202E', 'b']);

// A reader of Markdown never makes a node outside its list, and its links lead to pages.
const { blocksOf, hiddenTarget } = await load('markdown.mjs');
const letters = ['*', '**', '`', '```', '\n', '\n\n', '- ', '1. ', '# ', '> ', '[a](', 'https://b.example', 'javascript:x', ')', '![', '<b>', ' ', 'word', '_', '|', '|---|', '| a | b |\n|---|---|\n'];
let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
for (let round = 0; round < 3000; round += 1) {
  const text = Array.from({ length: 12 }, () => letters[Math.floor(random() * letters.length)]).join('');
  for (const block of blocksOf(text)) {
    assert.ok(['paragraph', 'heading', 'quote', 'item', 'code', 'table'].includes(block.kind));
    for (const span of [...(block.spans ?? []), ...(block.rows ?? []).flat(2)]) {
      assert.ok(['text', 'strong', 'emphasis', 'code', 'link'].includes(span.kind), text);
      assert.ok(span.kind !== 'link' || /^(https?:|mailto:)/.test(span.href), text);
    }
  }
}
assert.deepEqual(blocksOf('a **b** c')[0].spans.map((span) => span.kind), ['text', 'strong', 'text']);
assert.equal(blocksOf('[x](javascript:alert)')[0].spans[0].kind, 'text');

assert.deepEqual(blocksOf('| a | b |\n|---|---|\n| 1 | **2** |\nend').map((block) => block.kind), ['table', 'paragraph']);

assert.deepEqual(blocksOf('a|b\n| :--- | ---:|\nc|d').map((block) => block.kind), ['table']);
assert.deepEqual(blocksOf('a|b\n| -- | - |').map((block) => block.kind), ['paragraph']);

// A link says where it leads, unless its text is the address.
const linked = (text, href) => hiddenTarget(blocksOf(`[${text}](${href})`)[0].spans[0]);
assert.equal(linked('https://bank.co.uk/login', 'https://k.co/x'), 'k.co');
assert.equal(linked('the bank', 'mailto:ann@k.co'), 'ann@k.co');
for (const same of ['https://k.co', 'https://k.co/x?y#z', 'https://k.co:8443/x', 'mailto:ann@k.co?subject=x']) assert.equal(linked(same, same), '');
for (const same of ['https://bank.com@bank.co/login', 'https://bank.com:x@bank.co']) assert.equal(linked(same, same), 'bank.co');

// It reads a text of 1 MB in time that is in proportion to it: this ends the test's process otherwise.
const many = (part) => part.repeat(1_000_000 / part.length);
for (const text of ['[', '![', '[a](', '[a]', '`', '*a', '**a', '_', '|', 'a|b\n-|-\n\n', 'a|b\n---|---\n\n', '```\n', '~~~\n', '# ', '- ', '> ', '[ ', '](', '\u2028', '[\u2028', '---|'].map(many)) blocksOf(text);
for (const blank of [' ', '\t', '\u2028', '\u3000', '\r']) {
  for (const [head, end] of [['a|b\n', 'x|'], ['\n', 'x'], ['- ', 'x\u2028y'], ['# ', 'x\ry'], ['> ', '\u2028>'], ['a|b\n---', '|x']]) blocksOf(head + many(blank) + end);
}

// A joiner that makes one picture of two is no hidden character; others are.
assert.equal(pieces('👩🏽‍🔧').length, 1);
assert.deepEqual(pieces('a\u200db').map((piece) => piece.mark ?? piece.text), ['a', 'U+200D', 'b']);

// A tool's colours are pieces, and no other escape is taken away.
const { splitColours } = await load('format.mjs');
assert.deepEqual(splitColours('a\u001b[1;31mb\u001b[0mc\u001b[2J'), [{ text: 'a', colour: null }, { text: 'b', colour: 1 }, { text: 'c\u001b[2J', colour: null }]);

// Arguments become fields and come back as they were, with every digit of their numbers.
const { fieldsOfValue, fieldsOfSchema, parse, readFields } = await load('json.mjs');
const source = '{"to":"Bob","euros":12345678901234567890,"half":0.5,"now":true,"deep":{"a":[1,null]},"none":null}';
const fields = fieldsOfValue(parse(source));
assert.equal(JSON.stringify(readFields(fields, {}).value), source);
assert.equal(JSON.stringify(readFields(fields, { euros: '7', now: 'false', to: 'Ann' }).value).slice(0, 24), '{"to":"Ann","euros":7,"h');
assert.equal(readFields(fields, { euros: 'many' }).value.euros, 'many');
assert.match(readFields(fields, { deep: '{' }).problem, /deep is not JSON/);
const asked = fieldsOfSchema({ properties: { name: { type: 'string' }, size: { enum: ['S', 'L'] }, more: {} }, required: ['name'] });
assert.match(readFields(asked, {}).problem, /name is missing/);
assert.deepEqual(readFields(asked, { name: 'x', size: 'L' }).value, { name: 'x', size: 'L' });
assert.equal(fieldsOfValue(Array.from({ length: 3 })), null);
