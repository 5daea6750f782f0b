/** What the model was asked in a step: system prompt, messages, tools, and what its provider gets. */

import { get, part } from '../api.mjs';
import { beginning, took } from '../format.mjs';
import { html, useState } from '../view.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json } from './json.mjs';
import { NoStep, stepOf } from './steps.mjs';
import { Text } from './text.mjs';

/** @type {Record<string, string>} */
const SOURCES = { added: 'not in the log', changed: 'changed from the log' };
const REPEATED = ['messages', 'tools', 'system', 'upstream_model', 'routing_key'];

/** @param {{node: any}} props */
export function RequestTab({ node }) {
  const step = stepOf(node);
  const [form, setForm] = useState('neutral');
  const path = step && `/v1/runs/${part(step.runId)}/steps/${step.more.number}/request`;
  const { value, error, again } = useLoaded(async () => (path ? get(path, { form }) : null), [path, form, node.status]);
  const before = useLoaded(
    async () => (step && step.more.number > 1 ? get(`/v1/runs/${part(step.runId)}/steps/${step.more.number - 1}/request`).catch(() => null) : null),
    [path],
  );
  if (!path) return html`<${NoStep} />`;
  if (error?.code === 'request_not_kept') return html`<${NotKept} step=${step} error=${error} />`;
  if (error) return html`<${Failed} error=${error} onRetry=${again} />`;
  if (!value) return html`<${Loading} />`;
  const toggle = () => setForm(form === 'neutral' ? 'provider' : 'neutral');
  return html`
    <p class="acts"><button aria-pressed=${form === 'provider'} onClick=${toggle}>As sent to the provider</button></p>
    ${form === 'provider' ? html`<${Provider} told=${value} />` : html`<${Asked} told=${value} earlier=${before.value} />`}`;
}

/** @param {{told: any}} props */
function Provider({ told }) {
  if (told.provider_problem) return html`<p class="sub"><${Text} of=${told.provider_problem} /></p>`;
  return html`<p class="sub">The body of the request, without the key.</p><${Json} of=${told.provider} />`;
}

/** @param {{told: any, earlier: any}} props */
function Asked({ told, earlier }) {
  const { request, sources } = told;
  const others = Object.fromEntries(Object.entries(request).filter(([name, value]) => !REPEATED.includes(name) && value !== null && value !== false));
  const seen = new Set((earlier?.request.messages ?? []).map((/** @type {any} */ one) => JSON.stringify(one)));
  const fresh = request.messages.filter((/** @type {any} */ one) => !seen.has(JSON.stringify(one))).length;
  return html`
    <dl><dt>model</dt><dd><${Text} of=${told.answered_by ?? request.upstream_model} />${told.answered_by && told.answered_by !== told.model && html` (asked: <${Text} of=${told.model} />)`}</dd>
      ${told.first_ms !== null && html`<dt>first words</dt><dd>after ${took(told.first_ms)}</dd>`}
      ${earlier && html`<dt>new</dt><dd>${fresh} of ${request.messages.length} messages since the step before</dd>`}</dl>
    ${told.attempts.map((/** @type {any} */ one, /** @type {number} */ at) => html`<p class="wrong" key=${at}><${Text} of=${one.model} /> failed after ${took(one.ms)}: <${Text} of=${one.error} /></p>`)}
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
function NotKept({ step, error }) {
  const model = step.children.find((/** @type {any} */ one) => one.kind === 'model');
  return html`<p class="sub"><${Text} of=${error.message} />.</p>
    <dl><dt>model</dt><dd><${Text} of=${model?.label ?? 'not known'} /></dd>
      <dt>answer</dt><dd><${Text} of=${step.said || 'see its events'} /></dd></dl>
    <p class="sub">The messages of the thread and the step's events are in the log: see <i>Events</i>.</p>`;
}
