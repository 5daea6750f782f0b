/** The state before a step and after it, and what the step has changed. */

import { get, part } from '../api.mjs';
import { changesBetween } from '../diff.mjs';
import { beginning } from '../format.mjs';
import { html } from '../view.mjs';
import { Failed, Loading, useLoaded } from './faces.mjs';
import { Json } from './json.mjs';
import { NoStep, stepOf } from './steps.mjs';
import { Text } from './text.mjs';

const LONGEST = 160;

/** @param {{node: any}} props */
export function StateTab({ node }) {
  const step = stepOf(node);
  const path = step && `/v1/runs/${part(step.runId)}/steps/${step.more.number}/state`;
  const { value, error, again } = useLoaded(async () => (path ? get(path) : null), [path, node.status]);
  if (!path) return html`<${NoStep} />`;
  if (error) return html`<${Failed} error=${error} onRetry=${again} />`;
  if (!value) return html`<${Loading} />`;
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

/** @param {{change: import('../diff.mjs').Change}} props */
function Change({ change }) {
  const path = change.path.join('.');
  const line = (/** @type {any} */ value) => beginning(`${path}: ${JSON.stringify(value)}`, LONGEST);
  return html`${'before' in change && html`<div class="was">− <${Text} of=${line(change.before)} /></div>`}
    ${'after' in change && html`<div class="now">+ <${Text} of=${line(change.after)} /></div>`}`;
}
