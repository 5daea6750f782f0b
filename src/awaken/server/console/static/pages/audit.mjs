/** What people and programs did through the server. */

import { get } from '../api.mjs';
import { entitle } from '../shell.mjs';
import { html } from '../view.mjs';
import { Empty, Failed, Loading, useLoaded } from '../parts/faces.mjs';
import { Text, When } from '../parts/text.mjs';

/** @type {Record<string, string>} */
const WORDS = {
  'POST /v1/session': 'signed in',
  'DELETE /v1/session': 'signed out',
  'POST /v1/session/words': 'made a link',
  'POST /v1/runs': 'asked an agent',
  'POST /v1/threads/{thread}/runs': 'asked an agent',
  'POST /v1/runs/{run}/messages': 'sent a message to a run',
  'POST /v1/runs/{run}/cancel': 'cancelled a run',
  'POST /v1/runs/{run}/decisions': 'answered a question',
  'POST /v1/threads/{thread}/fork': 'forked a thread',
  'DELETE /v1/threads/{thread}': 'deleted a thread',
  'PATCH /v1/threads/{thread}': 'changed a thread',
  'GET /v1/tickets/export': 'exported the answers',
  'GET /v1/runs/{run}/steps/{step}/request': 'saw what a model was asked',
  'GET /v1/runs/{run}/steps/{step}/state': 'saw the state',
  'GET /v1/threads/{thread}/state': 'saw the state',
};

export function AuditPage() {
  const { value, error, again } = useLoaded(() => get('/v1/audit'), []);
  entitle('Audit');
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Audit</h1><p class="sub">what people and programs did through this server, newest first</p></div>
      <div class="acts"><button onClick=${again}>Refresh</button></div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : !value ? html`<${Loading} />`
        : !value.items.length ? html`<${Empty} title="Nothing was done yet" />`
        : html`<table class="wide"><thead><tr><th>when</th><th>who</th><th>what</th><th>on</th><th>from</th><th>outcome</th></tr></thead>
          <tbody>${value.items.map((/** @type {any} */ deed, /** @type {number} */ at) => html`<${Line} key=${at} deed=${deed} />`)}</tbody></table>`}
    </div></div>`;
}

/** @param {{deed: any}} props */
function Line({ deed }) {
  const what = `${deed.method} ${deed.route}`;
  return html`<tr><td><${When} at=${deed.at} /></td><td><b><${Text} of=${deed.who || 'unknown'} /></b></td>
    <td title=${what}><${Text} of=${WORDS[what] ?? what} /></td>
    <td><code><${Text} of=${Object.values(deed.on).join(' ')} /></code></td>
    <td><${Text} of=${deed.address} /></td>
    <td>${deed.status < 400 ? 'done' : html`<span class="wrong">refused (${deed.status})</span>`}</td></tr>`;
}
