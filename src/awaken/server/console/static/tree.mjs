/**
 * Events → the tree of a run. No DOM.
 *
 * A node is known by its thread, the message of its step and the number of its call: the call ids
 * of providers repeat. Fed in any batches, the same events make the same tree.
 */

import { beginning } from './format.mjs';
import { callIn, HANDLERS, isKnown, WORDS } from './tree_events.mjs';

/** One row of the tree. */
export class Node {
  depth = 0;

  /** @param {string} id @param {string} kind @param {Node | null} parent @param {string} label */
  constructor(id, kind, parent, label) {
    this.id = id;
    this.kind = kind;
    this.parent = parent;
    this.label = label;
    if (parent) this.depth = parent.depth + 1;
    /** @type {Node[]} */
    this.children = [];
    /** Its place among its siblings, from 1, since the rows were last laid out. */
    this.place = 1;
    this.status = 'running';
    this.isOpen = true;
    this.startedAt = 0;
    /** @type {number | null} */
    this.endedAt = null;
    this.input = 0;
    this.output = 0;
    /** @type {number | null} */
    this.cost = null;
    this.hasUnknownCost = false;
    this.threadId = '';
    this.runId = '';
    this.text = '';
    /** @type {any} What else is known, by kind: arguments, result, ticket, step number… */
    this.more = {};
  }

  get tokens() {
    return this.input + this.output;
  }

  /** @param {number} now */
  duration(now) {
    if (!this.startedAt) return null;
    if (this.endedAt !== null) return this.endedAt - this.startedAt;
    return this.status === 'running' ? Math.max(0, now - this.startedAt) : null;
  }
}

/** A run whose events are being read. */
export class Run {
  /** @param {Node} node */
  constructor(node) {
    this.node = node;
    /** @type {Node | null} */
    this.step = null;
    this.isStepOpen = false;
    this.steps = 0;
  }
}

export class RunTree {
  /** @param {string} runId */
  constructor(runId) {
    this.rootId = runId;
    /** @type {Map<string, Run>} */
    this.runs = new Map();
    /** @type {Map<string, Node>} */
    this.nodes = new Map();
    /** @type {Map<string, number>} the last `seq` of each thread */
    this.last = new Map();
    this.events = 0;
    /** Whether events that were sent ahead were voided, so that the log has to be read anew. */
    this.isVoid = false;
    this.root = this._run(runId, null, '').node;
  }

  /** Apply an event; returns whether it belonged to this run or to a run that it has started. @param {any} envelope */
  take(envelope) {
    if (envelope.seq !== undefined && envelope.seq !== null) {
      if (envelope.seq <= (this.last.get(envelope.thread_id) ?? 0)) return false;
      this.last.set(envelope.thread_id, envelope.seq);
    }
    const { event } = envelope;
    if (event.event_type === 'run_start') this._start(envelope);
    const run = this.runs.get(envelope.run_id);
    if (!run) return false;
    this.events += 1;
    const kind = /** @type {keyof typeof HANDLERS} */ (event.event_type);
    // The events of a known step are skipped: they are read when the step is opened.
    if (!isKnown(run.step) || OF_RUNS.includes(kind)) HANDLERS[kind]?.(this, run, event, envelope);
    return true;
  }

  /** Lay out steps that are known by their row of the outline alone. @param {any[]} rows */
  outline(rows) {
    const run = /** @type {Run} */ (this.runs.get(this.rootId));
    for (const row of rows) {
      const known = this.nodes.get(`${run.node.threadId}/${row.message_id}`);
      const step = known ?? this._step(run, row.message_id, row.step, row.started_at_ms, row.agent_id);
      step.text ||= row.words ?? '';
      step.label = beginning(step.text, WORDS);
      if (known) continue;
      step.endedAt = row.ended_at_ms ?? null;
      step.status = row.ended_at_ms == null ? 'running' : row.outcome ?? 'succeeded';
      step.more.isUnread = true;
      step.isOpen = false;
      step.more.seq = row.seq;
      const { input_tokens: input = 0, output_tokens: output = 0 } = row;
      this._add(step, input, output, row.cost ?? null, input + output > 0);
      run.isStepOpen = row.ended_at_ms == null;
    }
  }

  /** The events of a step that was known by its row alone. @param {Node} step @param {any[]} events */
  fill(step, events) {
    const run = /** @type {Run} */ (this.runs.get(step.runId));
    const before = { step: run.step, isStepOpen: run.isStepOpen, counts: this._counts };
    this._counts = false;
    [run.step, run.isStepOpen] = [step, true];
    step.more.isUnread = false;
    for (const envelope of events) {
      const kind = /** @type {keyof typeof HANDLERS} */ (envelope.event.event_type);
      if (kind !== 'step_start' && !kind.startsWith('run_')) HANDLERS[kind]?.(this, run, envelope.event, envelope);
    }
    [run.step, run.isStepOpen, this._counts] = [before.step, before.isStepOpen, before.counts];
  }

  /** Whether sums go up the tree; not while a step is filled whose sums are known. */
  _counts = true;

  /** The rows in sight: those whose ancestors are open, and that fit the filter or lead to one.
   * @param {((node: Node) => boolean) | null} [fits] @returns {Node[]} */
  rows(fits = null) {
    /** @type {Node[]} */
    const found = [];
    const walk = (/** @type {Node} */ node) => {
      const at = found.length;
      found.push(node);
      let isWanted = !fits || fits(node);
      if (node.isOpen || fits) {
        node.children.forEach((child, at) => {
          child.place = at + 1;
          isWanted = walk(child) || isWanted;
        });
      }
      if (!isWanted) found.length = at;
      return isWanted;
    };
    walk(this.root);
    return found;
  }

  /** The first call that waits for an answer, if the run does. @returns {Node | undefined} */
  asking() {
    if (this.root.status !== 'waits') return undefined;
    return [...this.nodes.values()].find((node) => node.kind === 'call' && node.status === 'waits' && node.more.ticket);
  }

  // -- making nodes ---------------------------------------------------------------------------

  /** @param {string} runId @param {Node | null} parent @param {string} label */
  _run(runId, parent, label) {
    const node = this._node(`run ${runId}`, parent ? 'agent' : 'run', parent, label);
    node.runId = runId;
    const run = new Run(node);
    this.runs.set(runId, run);
    return run;
  }

  /** @param {string} id @param {string} kind @param {Node | null} parent @param {string} label */
  _node(id, kind, parent, label) {
    const node = new Node(id, kind, parent, label);
    if (parent) {
      node.runId = parent.runId;
      node.threadId = parent.threadId;
      parent.children.push(node);
    }
    this.nodes.set(id, node);
    return node;
  }

  /** @param {Run} run @param {string} messageId @param {number} number @param {number} at @param {string} agent */
  _step(run, messageId, number, at, agent) {
    const step = this._node(`${run.node.threadId}/${messageId}`, 'step', run.node, '');
    step.startedAt = at;
    step.more = { number, agent, messageId, count: 0 };
    run.step = step;
    run.steps = number;
    return step;
  }

  /** @param {Run} run @param {string} callId @param {string} name @param {number} at */
  _call(run, callId, name, at) {
    const step = run.step ?? run.node;
    const count = (step.more.count = (step.more.count ?? 0) + 1);
    const call = this._node(`${step.id}/${count}`, 'call', step, name);
    call.startedAt = at;
    call.isOpen = true;
    call.more = { callId, isWritten: false, text: '', output: '' };
    return call;
  }

  /** The last call of a run with this id: mostly in its present step, else in an earlier one.
   * @param {Run} run @param {string} callId @returns {Node | undefined} */
  _find(run, callId) {
    const steps = run.node.children;
    let found = run.step ? callIn(run.step, callId) : undefined;
    for (let at = steps.length - 1; !found && at >= 0; at -= 1) found = callIn(steps[at], callId);
    return found;
  }

  /** @param {any} envelope */
  _start(envelope) {
    const { event, run_id: runId, parent_run_id: parentId } = envelope;
    const known = this.runs.get(runId);
    if (known && !known.node.startedAt) return this._begin(known, envelope);
    if (known) return this._resume(known, envelope);
    const above = parentId ? this.runs.get(parentId) : undefined;
    if (!above) return undefined;
    const callId = event.identity?.parent_tool_call_id;
    const call = callId ? this._find(above, callId) : undefined;
    return this._begin(this._run(runId, call ?? above.step ?? above.node, ''), envelope);
  }

  /** @param {Run} run @param {any} envelope */
  _begin(run, envelope) {
    const { node } = run;
    node.threadId = envelope.thread_id;
    node.startedAt = envelope.at_ms;
    node.label = envelope.event.identity?.agent_id || node.label || 'run';
    node.more.identity = envelope.event.identity;
  }

  /** @param {Run} run @param {any} envelope */
  _resume(run, envelope) {
    const { node } = run;
    node.status = 'running';
    node.endedAt = null;
    const words = GOES_ON[/** @type {keyof typeof GOES_ON} */ (envelope.event.cause)];
    if (!words) return;
    const mark = this._node(`${node.threadId}#${envelope.seq}`, 'mark', node, words);
    mark.status = envelope.event.cause;
    mark.startedAt = mark.endedAt = envelope.at_ms;
  }

  /** Add to a node and to all above it. @param {Node} node @param {number} input
   * @param {number} output @param {number | null} cost @param {boolean} isPriced */
  _add(node, input, output, cost, isPriced) {
    for (let one = /** @type {Node | null} */ (node); one; one = this._counts ? one.parent : null) {
      one.input += input;
      one.output += output;
      if (cost !== null) one.cost = (one.cost ?? 0) + cost;
      else if (isPriced) one.hasUnknownCost = true;
    }
  }
}

const OF_RUNS = ['run_start', 'run_finish', 'error', 'step_start'];
const GOES_ON = {
  recovered: 'taken up again after its process had gone',
  answered: 'goes on: its question is settled',
  woken: 'goes on with news',
};
