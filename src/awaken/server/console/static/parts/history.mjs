/** The questions that were answered: who, when, why, with which arguments. */

import { get, part, send } from '../api.mjs';
import { html, useState } from '../view.mjs';
import { Empty, Failed, Loading, useLoaded } from './faces.mjs';
import { Faces } from './inbox_faces.mjs';
import { Text, When } from './text.mjs';
import { changes } from '../tickets.mjs';

const MOST = 500;

export function History() {
  const { value, error, again } = useLoaded(load, [changes.value]);
  const [hasFailed, setHasFailed] = useState(false);
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Inbox</h1><p class="sub">what was answered, newest first</p></div>
      <div class="acts">${value && value.length > 0 && html`${hasFailed && html`<span class="wrong" role="alert">the file could not be made</span>`}<button onClick=${() => download(() => setHasFailed(true))}>Download CSV</button>`}<${Faces} /></div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : !value ? html`<${Loading} />`
        : !value.length ? html`<${Empty} title="No question was answered yet" />`
        : html`<table class="wide"><thead><tr><th>when</th><th>who</th><th>answer</th><th>tool</th><th>asked for</th><th>given</th><th>why</th><th>run</th></tr></thead>
          <tbody>${value.map((/** @type {any} */ ticket) => html`<${Line} key=${ticket.key} ticket=${ticket} />`)}</tbody></table>`}
    </div></div>`;
}

async function load() {
  const pages = await Promise.all(['answered', 'expired', 'closed'].map((status) => get('/v1/tickets', { status, limit: MOST })));
  return pages.flatMap((page) => page.items).sort((a, b) => timeOf(b) - timeOf(a));
}

/** @param {any} ticket */
const timeOf = (ticket) => ticket.decision?.at ?? ticket.asked_at;
/** @param {any} ticket */
const answerOf = (ticket) => (!ticket.decision ? (ticket.status === 'closed' ? 'withdrawn' : ticket.status) : ticket.decision.action === 'cancel' ? 'no' : ticket.decision.result === null ? 'yes' : 'yes, with another value');

/** @param {{ticket: any}} props */
function Line({ ticket }) {
  const { decision } = ticket;
  return html`<tr><td><${When} at=${timeOf(ticket)} /></td>
    <td><${Text} of=${decision?.by ?? ''} /></td><td>${answerOf(ticket)}</td>
    <td><b><${Text} of=${ticket.tool_name} /></b></td>
    <td><code><${Text} of=${JSON.stringify(ticket.arguments)} /></code></td>
    <td>${decision && decision.result !== null && html`<code><${Text} of=${JSON.stringify(decision.result)} /></code>`}</td>
    <td><${Text} of=${decision?.reason ?? ''} /></td>
    <td><a href=${`/console/runs/${part(ticket.run_id)}`}>see its steps</a></td></tr>`;
}

/** The whole table as a file; that it was taken is written down. @param {() => void} onFailed */
async function download(onFailed) {
  const answer = await send('GET', '/v1/tickets/export').catch(onFailed);
  if (!answer) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = 'answers.csv';
  link.click();
  URL.revokeObjectURL(link.href);
}
