/** The details of one row: its agent, times, arguments and result. */

import { get, may, part } from '../api.mjs';
import { beginning, exactly, money, statusOf, tokens, formatDuration } from '../format.mjs';
import { changesBetween } from '../json.mjs';
import { addressOf, keepInAddress, useKeys } from '../router.mjs';
import { html, useState } from '../view.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json, Markdown, now, Output, Shape, Text } from './text.mjs';
import { TicketCard } from './ticket.mjs';

/** @type {Record<string, string>} */
const TABS = { overview: 'Overview', request: 'Request', result: 'Result', state: 'State', ledger: 'Ledger', events: 'Events' };
/** The tabs that only developers see. */
const INSPECTED = ['request', 'state'];

/** @param {{node: any, tab: string, version: number}} props `version` changes when the node does */
export function Inspector({ node, tab, version }) {
  const names = Object.keys(TABS).filter((name) => !INSPECTED.includes(name) || may('inspect'));
  const chosen = names.includes(tab) ? tab : 'overview';
  const Tab = { overview: Overview, request: RequestTab, result: Result, state: StateTab, ledger: Ledger, events: Events }[/** @type {'overview'} */ (chosen)];
  useKeys(Object.fromEntries(names.map((name, at) => [String(at + 1), () => keepInAddress({ tab: name })])));
  return html`<aside class="side" aria-label="Inspector">
    <h2><${Shape} of=${node.status} /><span><${Text} of=${titleOf(node)} /></span></h2>
    <div class="tabs" role="tablist" aria-label="About this row" onKeyDown=${moveTab}>
      ${names.map((name) => html`<button key=${name} role="tab" id=${`tab-${name}`}
        aria-selected=${name === chosen} aria-controls="tab-panel" tabindex=${name === chosen ? 0 : -1}
        onClick=${() => keepInAddress({ tab: name })}>${TABS[name]}</button>`)}
    </div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${chosen}`} tabindex="0">
      <${Tab} key=${`${chosen} ${node.id}`} node=${node} version=${version} />
    </div>
  </aside>`;
}

/** @param {KeyboardEvent} event */
function moveTab(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const tabs = [.../** @type {HTMLElement} */ (event.currentTarget).querySelectorAll('button')];
  const at = tabs.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
  const next = tabs[(at + by + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

/** @param {any} node */
function titleOf(node) {
  return node.kind === 'step' ? `step ${node.more.number}` : node.more.title || node.label || node.kind;
}

/** @param {{node: any}} props */
function Overview({ node }) {
  const { more } = node;
  const waits = more.ticket && node.status === 'waits';
  return html`
    <dl>
      <dt>status</dt><dd>${statusOf(node.status).word}${more.why && html`: <${Text} of=${more.why} />`}</dd>
      ${node.startedAt > 0 && html`<dt>began</dt><dd>${exactly(node.startedAt)}</dd>`}
      ${node.endedAt !== null && node.endedAt !== node.startedAt && html`<dt>ended</dt><dd>${exactly(node.endedAt)}</dd>`}
      ${node.kind !== 'mark' && html`<dt>took</dt><dd>${formatDuration(node.duration(now.value)) || '—'}</dd>`}
      ${node.tokens > 0 && html`<dt>tokens</dt><dd>${tokens(node.input)} in, ${tokens(node.output) || 0} out</dd>
        <dt>cost</dt><dd>${money(node.cost, node.hasUnknownCost)}</dd>`}
      ${more.agent && html`<dt>agent</dt><dd><${Text} of=${more.agent} /></dd>`}
      ${node.kind === 'agent' && html`<dt>run</dt><dd><a href=${addressOf(['runs', node.runId])}><code>${node.runId}</code></a></dd>`}
      ${more.toolKind && html`<dt>kind</dt><dd>${more.toolKind}</dd>`}
      ${more.callId && html`<dt>call</dt><dd><code><${Text} of=${more.callId} /></code></dd>`}
      ${more.answer?.by && html`<dt>answered</dt><dd>by <${Text} of=${more.answer.by} />${more.answer.reason && html`: “<${Text} of=${more.answer.reason} />”`}</dd>`}
    </dl>
    ${node.text && html`<h3>It said</h3><div class="said-block"><${StepText} node=${node} /></div>`}
    ${more.response && html`<h3>Answer</h3><div class="said-block"><${Markdown} of=${more.response} /></div>`}
    ${'arguments' in more && !waits && html`<h3>Arguments</h3><${Json} of=${more.arguments} />`}
    ${more.usage && html`<h3>Usage</h3><${Json} of=${more.usage} />`}
    ${waits && html`<${TicketCard} key=${more.ticket.key} ticketKey=${more.ticket.key} />`}`;
}

/** The text of a step. While it is written it is shown as it comes: to read all of its Markdown again at
 * every piece would take too long. @param {{node: any}} props */
const StepText = ({ node }) => (node.status === 'running' ? html`<${Text} of=${node.text} />` : html`<${Markdown} of=${node.text} />`);

/** @param {{node: any}} props */
function Result({ node }) {
  const { result, answer, output } = node.more;
  if (node.kind === 'step' || node.kind === 'agent' || node.kind === 'run') {
    const text = node.more.response || node.text;
    return text ? html`<div class="said-block"><${Markdown} of=${text} /></div>` : html`<p class="sub">Nothing was said.</p>`;
  }
  if (!result && !answer && !output) return html`<p class="sub">There is no result yet.</p>`;
  return html`
    ${output && html`<h3>Output so far</h3><${Output} of=${output} />`}
    ${answer?.text && html`<h3>After the answer</h3><${Output} of=${answer.text} />`}
    ${answer && !answer.text && answer.result !== undefined && html`<h3>Answer</h3><${Json} of=${answer.result} />`}
    ${result?.message && html`<h3>Message</h3><${Output} of=${result.message} />`}
    ${result && result.data !== null && result.data !== undefined && html`<h3>Data</h3><${Json} of=${result.data} />`}`;
}

/** The server's record of the step of a row, or what to show instead.
 * @param {any} node @param {string} [of] @returns {{step: any, value?: any, face?: any}} */
function useStep(node, of = '') {
  const step = stepOf(node);
  const path = step && `/v1/runs/${part(step.runId)}/steps/${step.more.number}${of}`;
  const { value, error, again } = useLoaded(async () => (path ? get(path) : null), [path, node.status]);
  if (!path) return { step, face: html`<p class="sub">Choose a step, or a call in one.</p>` };
  if (error) return { step, face: html`<${Failed} error=${error} onRetry=${again} />` };
  return value ? { step, value } : { step, face: html`<${Loading} />` };
}

/** @type {Record<string, string>} */
const PHASES = {
  intent: 'intent: from here on it may have begun',
  suspended: 'waits for an answer',
  unknown: 'outcome unknown: the call may have taken effect or not',
};
/** @type {Record<string, (event: any) => string>} */
const DECISIONS = {
  run_start: ({ cause }) => (cause === 'recovered' ? 'taken up again after its process had gone' : ''),
  tool_call_resumed: ({ by, reason }) => `answered${by ? ` by ${by}` : ''}${reason ? `: ${reason}` : ''}`,
};

/** The ledger of a call, or of all calls of a step: what was planned, what came of it, and
 * what was decided in between. @param {{node: any}} props */
function Ledger({ node }) {
  const { value, face } = useStep(node);
  if (face) return face;
  const { callId } = node.more;
  const lines = value.ledger.filter((/** @type {any} */ line) => !callId || line.call_id === callId);
  if (!lines.length) return html`<p class="sub">No call was begun.</p>`;
  const decided = value.events
    .map((/** @type {any} */ { at_ms: at, event }) => ({ at, about: event.target_id ?? event.id, words: DECISIONS[event.event_type]?.(event) }))
    .filter((/** @type {any} */ { words, about }) => words && (!callId || !about || about === callId));
  const calls = new Map(lines.map((/** @type {any} */ line) => [line.key, line]));
  // A decision is written with what came of it, and comes first.
  const entries = [...decided, ...lines.map((/** @type {any} */ line) => ({ at: line.at, name: line.tool_name, words: `${PHASES[line.phase] ?? line.phase}${line.stopped ? ', no longer at work' : ''}` }))];
  return html`
    ${[...calls.values()].map((line) => html`<h3 class="key" key=${line.key}><${Text} of=${line.tool_name} /></h3>
      <dl><dt>key</dt><dd><code><${Text} of=${line.key} /></code></dd>
        <dt>effect</dt><dd>${line.effect ?? 'not known here'}</dd>
        ${line.recovery && html`<dt>after a crash</dt><dd>${line.recovery}</dd>`}</dl>`)}
    <table><thead><tr><th>when</th><th>what</th></tr></thead>
      <tbody>${entries.sort((a, b) => a.at - b.at).map(({ at, name, words }, number) => html`<tr key=${number}>
        <td class="keys"><time title=${exactly(at)}>${exactly(at).slice(11)}</time></td>
        <td>${calls.size > 1 && name && html`<b><${Text} of=${name} /></b> `}<${Text} of=${words} /></td></tr>`)}</tbody></table>`;
}

/** @param {{node: any}} props */
function Events({ node }) {
  const { step, value, face } = useStep(node);
  if (face) return face;
  return html`<p class="sub">The durable events of step ${step.more.number}.</p>
    ${value.events.map((/** @type {any} */ envelope) => html`<details class="event-line" key=${envelope.seq}>
      <summary><span>${envelope.seq}</span> ${envelope.event.event_type}</summary><${Json} of=${envelope.event} />
    </details>`)}
    <h3>Messages</h3>
    ${value.messages.map((/** @type {any} */ message) => html`<details class="event-line" key=${message.id}>
      <summary>${message.role}</summary><${Json} of=${message} />
    </details>`)}`;
}

// -- The request to the model in a step: system prompt, messages, tools, and the provider's body.

/** @type {Record<string, string>} */
const SOURCES = { added: 'not in the log', changed: 'changed from the log' };
const REPEATED = ['messages', 'tools', 'system', 'upstream_model', 'routing_key'];

/** @param {{node: any}} props */
function RequestTab({ node }) {
  const step = stepOf(node);
  const [form, setForm] = useState('neutral');
  const path = step && `/v1/runs/${part(step.runId)}/steps/${step.more.number}/request`;
  const { value, error, again } = useLoaded(async () => (path ? get(path, { form }) : null), [path, form, node.status]);
  const before = useLoaded(
    async () => (step && step.more.number > 1 ? get(`/v1/runs/${part(step.runId)}/steps/${step.more.number - 1}/request`).catch(() => null) : null),
    [path],
  );
  if (!path) return html`<${NoStep} />`;
  if (error?.code === 'request_not_kept') return html`<${MissingRequest} step=${step} error=${error} />`;
  if (error) return html`<${Failed} error=${error} onRetry=${again} />`;
  if (!value) return html`<${Loading} />`;
  const toggle = () => setForm(form === 'neutral' ? 'provider' : 'neutral');
  return html`
    <p class="acts"><button aria-pressed=${form === 'provider'} onClick=${toggle}>As sent to the provider</button></p>
    ${form === 'provider' ? html`<${Provider} answer=${value} />` : html`<${ModelRequest} answer=${value} earlier=${before.value} />`}`;
}

/** @param {{answer: any}} props */
function Provider({ answer }) {
  if (answer.provider_problem) return html`<p class="sub"><${Text} of=${answer.provider_problem} /></p>`;
  return html`<p class="sub">The body of the request, without the key.</p><${Json} of=${answer.provider} />`;
}

/** @param {{answer: any, earlier: any}} props */
function ModelRequest({ answer, earlier }) {
  const { request, sources } = answer;
  const others = Object.fromEntries(Object.entries(request).filter(([name, value]) => !REPEATED.includes(name) && value !== null && value !== false));
  const seen = new Set((earlier?.request.messages ?? []).map((/** @type {any} */ one) => JSON.stringify(one)));
  const newCount = request.messages.filter((/** @type {any} */ one) => !seen.has(JSON.stringify(one))).length;
  return html`
    <dl><dt>model</dt><dd><${Text} of=${answer.answered_by ?? request.upstream_model} />${answer.answered_by && answer.answered_by !== answer.model && html` (asked: <${Text} of=${answer.model} />)`}</dd>
      ${answer.first_ms !== null && html`<dt>first words</dt><dd>after ${formatDuration(answer.first_ms)}</dd>`}
      ${earlier && html`<dt>new</dt><dd>${newCount} of ${request.messages.length} messages since the step before</dd>`}</dl>
    ${answer.attempts.map((/** @type {any} */ one, /** @type {number} */ at) => html`<p class="wrong" key=${at}><${Text} of=${one.model} /> failed after ${formatDuration(one.ms)}: <${Text} of=${one.error} /></p>`)}
    <h3>The system prompt</h3>
    ${request.system?.length ? html`<pre><${Text} of=${textOf(request.system)} /></pre>` : html`<p class="sub">There was none.</p>`}
    <h3>${request.messages.length} messages</h3>
    ${request.messages.map((/** @type {any} */ message, /** @type {number} */ at) => html`<details class="event-line" key=${message.id ?? at}>
      <summary><span>${message.role}</span> <${Text} of=${beginning(textOf(message.content) || calls(message), 60)} />
        ${SOURCES[sources[at]] && html` <span class="badge waits">${SOURCES[sources[at]]}</span>`}
        ${earlier && !seen.has(JSON.stringify(message)) && html` <span class="badge running">new</span>`}</summary><${Json} of=${message} />
    </details>`)}
    <h3>${request.tools?.length ?? 0} tools</h3>
    ${(request.tools ?? []).map((/** @type {any} */ tool) => html`<details class="event-line" key=${tool.id}>
      <summary><${Text} of=${tool.name} /></summary><${Json} of=${tool} /></details>`)}
    ${Object.keys(others).length > 0 && html`<h3>Parameters</h3><${Json} of=${others} />`}`;
}

/** @param {any} message */
const calls = (message) => (message.tool_calls ?? []).map((/** @type {any} */ call) => `${call.name}(…)`).join(' ');

/** @param {any} content */
function textOf(content) {
  if (typeof content === 'string') return content;
  return (content ?? []).map((/** @type {any} */ block) => block.text ?? `[${block.kind ?? block.title ?? block.type}]`).join('');
}

/** @param {{step: any, error: any}} props */
function MissingRequest({ step, error }) {
  const model = step.children.find((/** @type {any} */ one) => one.kind === 'model');
  return html`<p class="sub"><${Text} of=${error.message} />.</p>
    <dl><dt>model</dt><dd><${Text} of=${model?.label ?? 'not known'} /></dd>
      <dt>answer</dt><dd><${Text} of=${step.text || 'see its events'} /></dd></dl>
    <p class="sub">The messages of the thread and the step's events are in the log: see <i>Events</i>.</p>`;
}

// -- The state before a step and after it, and what the step has changed.

const LONGEST = 160;

/** @param {{node: any}} props */
function StateTab({ node }) {
  const { value, face } = useStep(node, '/state');
  if (face) return face;
  const changes = changesBetween(value.before, value.after);
  const touched = new Set(changes.map((change) => change.path[0]));
  const same = Object.keys(value.after).filter((key) => !touched.has(key));
  return html`
    <h3>Changed by step ${value.step}</h3>
    ${changes.length ? html`<pre class="difference">${changes.map((change) => html`<${Change} key=${change.path.join('/')} change=${change} />`)}</pre>`
      : html`<p class="sub">No state was changed.</p>`}
    ${[...touched].map((key) => html`<h3 class="key" key=${key}><${Text} of=${key} /></h3>
      <dl><dt>before</dt><dd>${key in value.before ? html`<${Json} of=${value.before[key]} />` : 'not set'}</dd>
        <dt>after</dt><dd>${key in value.after ? html`<${Json} of=${value.after[key]} />` : 'not set'}</dd></dl>`)}
    ${same.length > 0 && html`<h3>${same.length} unchanged</h3>${same.map((key) => html`<details class="event-line" key=${key}>
      <summary><${Text} of=${key} /></summary><${Json} of=${value.after[key]} /></details>`)}`}`;
}

/** @param {{change: import('../json.mjs').Change}} props */
function Change({ change }) {
  const path = change.path.join('.');
  const line = (/** @type {any} */ value) => beginning(`${path}: ${JSON.stringify(value)}`, LONGEST);
  return html`${'before' in change && html`<div class="was">− <${Text} of=${line(change.before)} /></div>`}
    ${'after' in change && html`<div class="now">+ <${Text} of=${line(change.after)} /></div>`}`;
}

// -- The step that a row of the tree belongs to.

/** @param {any} node */
function stepOf(node) {
  for (let one = node; one; one = one.parent) if (one.kind === 'step') return one;
  return null;
}

const NoStep = () => html`<p class="sub">Choose a step, or a call in one.</p>`;
