/**
 * What each event does to the tree of its run. No DOM.
 *
 * @typedef {import('./tree.mjs').Node} Node
 * @typedef {import('./tree.mjs').Run} Run
 * @typedef {import('./tree.mjs').RunTree} RunTree
 */

import { beginning, endStatus, endReason } from './format.mjs';

/** The most characters of a step's text in its row. */
export const WORDS = 80;

/** @param {Node} step @param {string} callId */
export const callIn = (step, callId) => step.children.findLast((one) => one.more.callId === callId);

/** Whether a step is known by its row, which has its sums and how it ended. @param {Node | null} step */
export const isKnown = (step) => Boolean(step?.more.isUnread) && step?.endedAt !== null;

/** @param {Node} node @param {number} at @param {string} status */
function end(node, at, status) {
  node.endedAt = at;
  node.status = status;
}

/** @param {Run} run @param {string} text */
function say(run, text) {
  if (!run.step) return;
  run.step.text = text;
  run.step.label = beginning(text, WORDS);
}

/** @type {Record<string, (tree: RunTree, run: Run, event: any, envelope: any) => void>} */
export const HANDLERS = {
  run_finish(tree, run, event, envelope) {
    end(run.node, envelope.at_ms, endStatus(event.termination));
    run.node.more.why = endReason(event.termination);
    run.node.more.response = event.result?.response ?? '';
    if (run.step && run.isStepOpen) end(run.step, envelope.at_ms, run.node.status);
    run.isStepOpen = false;
  },
  error(tree, run, event, envelope) {
    end(run.node, envelope.at_ms, 'failed');
    run.node.more.why = event.message;
    if (run.step && run.isStepOpen) end(run.step, envelope.at_ms, 'failed');
    run.isStepOpen = false;
  },
  step_start(tree, run, event, envelope) {
    const known = tree.nodes.get(`${run.node.threadId}/${event.message_id}`);
    if (known) run.step = known;
    else if (!run.isStepOpen) tree._step(run, event.message_id, run.steps + 1, envelope.at_ms, event.agent_id);
    run.isStepOpen = !isKnown(run.step);
  },
  step_end(tree, run, event, envelope) {
    run.isStepOpen = false;
    if (run.step) end(run.step, envelope.at_ms, worst(run.step));
  },
  text_delta: (tree, run, event) => say(run, (run.step?.text ?? '') + event.delta),
  step_snapshot(tree, run, event) {
    say(run, event.text ?? '');
    dropUnwritten(tree, run);
  },
  stream_reset(tree, run, event) {
    say(run, '');
    dropUnwritten(tree, run);
    if (event.from_seq !== undefined && event.from_seq !== null) tree.isVoid = true;
  },
  tool_call_start: (tree, run, event, envelope) => void tree._call(run, event.id, event.name, envelope.at_ms),
  tool_call_delta(tree, run, event) {
    const call = tree._find(run, event.id);
    if (call && !call.more.isWritten) call.more.text += event.args_delta;
  },
  tool_call_ready(tree, run, event, envelope) {
    const begun = run.step ? callIn(run.step, event.id) : undefined;
    const isSame = begun && !begun.more.isWritten;
    const call = isSame ? begun : tree._call(run, event.id, event.name, envelope.at_ms);
    call.label = event.name;
    call.startedAt = envelope.at_ms;
    Object.assign(call.more, { isWritten: true, arguments: event.arguments });
  },
  tool_call_stream_delta(tree, run, event) {
    const call = tree._find(run, event.id);
    if (call) call.more.output += event.delta;
  },
  tool_call_done(tree, run, event, envelope) {
    const call = tree._find(run, event.id) ?? tree._call(run, event.id, event.result.tool_name, envelope.at_ms);
    if (event.started_at_ms) call.startedAt = event.started_at_ms;
    end(call, envelope.at_ms, event.outcome === 'suspended' ? 'waits' : event.outcome);
    Object.assign(call.more, { result: event.result, messageId: event.message_id, toolKind: event.kind });
    if (event.title) call.more.title = event.title;
    if (event.ticket_key) call.more.ticket = { key: event.ticket_key, digest: event.digest, expiresAt: event.expires_at };
  },
  tool_call_resumed(tree, run, event, envelope) {
    const call = tree._find(run, event.target_id);
    if (!call) return;
    call.more.askedAt = call.endedAt;
    end(call, envelope.at_ms, event.outcome ?? 'succeeded');
    Object.assign(call.more, { ticket: null, answer: { by: event.by, reason: event.reason, text: event.text, result: event.result } });
    if (call.parent && call.parent.status === 'waits') call.parent.status = worst(call.parent);
  },
  tool_call_cancel(tree, run, event, envelope) {
    const call = tree._find(run, event.id);
    if (call) end(call, envelope.at_ms, 'cancelled');
  },
  inference_complete(tree, run, event, envelope) {
    const step = run.step ?? run.node;
    const models = step.children.filter((one) => one.kind === 'model').length;
    const model = tree._node(`${step.id}/model ${models}`, 'model', step, event.model);
    step.children.splice(models, 0, /** @type {Node} */ (step.children.pop()));
    model.startedAt = envelope.at_ms - event.duration_ms;
    end(model, envelope.at_ms, 'succeeded');
    model.more.usage = event.usage;
    const { prompt_tokens: input = 0, completion_tokens: output = 0 } = event.usage ?? {};
    tree._add(model, input ?? 0, output ?? 0, event.cost ?? null, true);
  },
  context_compacted(tree, run, event, envelope) {
    const mark = tree._node(`${run.node.threadId}#${envelope.seq}`, 'mark', run.step ?? run.node, `messages ${event.from_seq} to ${event.to_seq} became a summary`);
    mark.startedAt = mark.endedAt = envelope.at_ms;
    mark.status = 'summary';
  },
};

/** A step that starts over: calls that were not written to their end are taken back.
 * @param {RunTree} tree @param {Run} run */
function dropUnwritten(tree, run) {
  const { step } = run;
  if (!step) return;
  for (const call of step.children.filter((one) => one.kind === 'call' && !one.more.isWritten)) {
    tree.nodes.delete(call.id);
    step.more.count -= 1;
  }
  step.children = step.children.filter((one) => one.kind !== 'call' || one.more.isWritten);
}

const ORDER = ['done', 'succeeded', 'cancelled', 'superseded', 'denied', 'expired', 'running', 'waits', 'failed'];

/** The worst status among a step's calls. @param {Node} step */
function worst(step) {
  let found = 'succeeded';
  for (const call of step.children) {
    if (call.kind === 'call' && ORDER.indexOf(call.status) > ORDER.indexOf(found)) found = call.status;
  }
  return found;
}
