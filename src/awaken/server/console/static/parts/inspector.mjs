/** What is known of one row: who, when, how long, with what, and what came of it. */

import { get, part } from '../api.mjs';
import { exactly, money, statusOf, took, tokens } from '../format.mjs';
import { useKeys } from '../keys.mjs';
import { keepInAddress } from '../router.mjs';
import { may } from '../session.mjs';
import { html } from '../view.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json } from './json.mjs';
import { NoStep, stepOf } from './steps.mjs';
import { Markdown } from './markdown.mjs';
import { Output, Shape, Text, now } from './text.mjs';
import { TicketCard } from './ticket.mjs';

/** @type {Record<string, string>} */
const TABS = { overview: 'Overview', request: 'Request', result: 'Result', state: 'State', events: 'Events' };
/** What only developers see; it is loaded when it is first opened. @type {Record<string, () => Promise<any>>} */
const INSPECTED = {
  request: async () => (await import('./request.mjs')).RequestTab,
  state: async () => (await import('./state.mjs')).StateTab,
};

/** @param {{node: any, tab: string, version: number}} props `version` changes when the node does */
export function Inspector({ node, tab, version }) {
  const names = Object.keys(TABS).filter((name) => !(name in INSPECTED) || may('inspect'));
  const chosen = names.includes(tab) ? tab : 'overview';
  const Tab = { overview: Overview, request: Inspected, result: Result, state: Inspected, events: Events }[/** @type {'overview'} */ (chosen)];
  useKeys(Object.fromEntries(names.map((name, at) => [String(at + 1), () => keepInAddress({ tab: name })])));
  return html`<aside class="side" aria-label="Inspector">
    <h2><${Shape} of=${node.status} /><span><${Text} of=${titleOf(node)} /></span></h2>
    <div class="tabs" role="tablist" aria-label="About this row" onKeyDown=${moveTab}>
      ${names.map((name) => html`<button key=${name} role="tab" id=${`tab-${name}`}
        aria-selected=${name === chosen} aria-controls="tab-panel" tabindex=${name === chosen ? 0 : -1}
        onClick=${() => keepInAddress({ tab: name })}>${TABS[name]}</button>`)}
    </div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${chosen}`} tabindex="0">
      <${Tab} key=${`${chosen} ${node.id}`} name=${chosen} node=${node} version=${version} />
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
      ${node.kind !== 'mark' && html`<dt>took</dt><dd>${took(node.duration(now.value)) || '—'}</dd>`}
      ${node.tokens > 0 && html`<dt>tokens</dt><dd>${tokens(node.input)} in, ${tokens(node.output) || 0} out</dd>
        <dt>cost</dt><dd>${money(node.cost, node.hasUnknownCost)}</dd>`}
      ${more.agent && html`<dt>agent</dt><dd><${Text} of=${more.agent} /></dd>`}
      ${node.kind === 'agent' && html`<dt>run</dt><dd><a href=${`/console/runs/${part(node.runId)}`}><code>${node.runId}</code></a></dd>`}
      ${more.toolKind && html`<dt>kind</dt><dd>${more.toolKind}</dd>`}
      ${more.callId && html`<dt>call</dt><dd><code><${Text} of=${more.callId} /></code></dd>`}
      ${more.answer?.by && html`<dt>answered</dt><dd>by <${Text} of=${more.answer.by} />${more.answer.reason && html`: “<${Text} of=${more.answer.reason} />”`}</dd>`}
    </dl>
    ${node.said && html`<h3>It said</h3><div class="said-block"><${Said} node=${node} /></div>`}
    ${more.response && html`<h3>Answer</h3><div class="said-block"><${Markdown} of=${more.response} /></div>`}
    ${'arguments' in more && !waits && html`<h3>Arguments</h3><${Json} of=${more.arguments} />`}
    ${more.usage && html`<h3>Usage</h3><${Json} of=${more.usage} />`}
    ${waits && html`<${TicketCard} key=${more.ticket.key} ticketKey=${more.ticket.key} />`}`;
}

/** What a step said. While it speaks it is shown as it comes: to read all of its Markdown again at
 * every piece would take too long. @param {{node: any}} props */
const Said = ({ node }) => (node.status === 'running' ? html`<${Text} of=${node.said} />` : html`<${Markdown} of=${node.said} />`);

/** @param {{node: any}} props */
function Result({ node }) {
  const { result, answer, output } = node.more;
  if (node.kind === 'step' || node.kind === 'agent' || node.kind === 'run') {
    const text = node.more.response || node.said;
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

/** @param {{name: string, node: any, version: number}} props */
function Inspected({ name, node, version }) {
  const { value: Found, error, again } = useLoaded(INSPECTED[name], [name]);
  if (error) return html`<${Failed} error=${error} onRetry=${again} />`;
  return Found ? html`<${Found} node=${node} version=${version} />` : html`<${Loading} />`;
}

/** @param {{node: any}} props */
function Events({ node }) {
  const step = stepOf(node);
  const path = step && `/v1/runs/${part(step.runId)}/steps/${step.more.number}`;
  const { value, error, again } = useLoaded(async () => (path ? get(path) : null), [path, node.status]);
  if (!path) return html`<${NoStep} />`;
  if (error) return html`<${Failed} error=${error} onRetry=${again} />`;
  if (!value) return html`<${Loading} />`;
  return html`<p class="sub">The durable events of step ${step.more.number}.</p>
    ${value.events.map((/** @type {any} */ told) => html`<details class="event-line" key=${told.seq}>
      <summary><span>${told.seq}</span> ${told.event.event_type}</summary><${Json} of=${told.event} />
    </details>`)}
    <h3>Messages</h3>
    ${value.messages.map((/** @type {any} */ message) => html`<details class="event-line" key=${message.id}>
      <summary>${message.role}</summary><${Json} of=${message} />
    </details>`)}`;
}
