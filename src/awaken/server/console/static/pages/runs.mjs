/** All runs, newest first. */

import { get, part } from '../api.mjs';
import { plain, runStatus, short, statusOf, took, whyEnded } from '../format.mjs';
import { keepInAddress, place } from '../router.mjs';
import { entitle } from '../shell.mjs';
import { html, useState } from '../view.mjs';
import { Empty, Failed, Loading, useLoaded } from '../parts/faces.mjs';
import { Shape, Text, When } from '../parts/text.mjs';
import { sums } from './threads.mjs';

const PAGE = 50;
const FILTERS = { '': 'all', running: 'running', waiting: 'waiting', done: 'done' };

export function RunsPage() {
  const [limit, setLimit] = useState(PAGE);
  const status = place.value.query.status ?? '';
  const { value, error, again } = useLoaded(
    () => get('/v1/runs', { limit, status: status || undefined }), [limit, status],
  );
  entitle('Runs');
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Runs</h1><p class="sub">what agents did, newest first</p></div>
      <div class="acts">${Object.entries(FILTERS).map(([name, label]) => html`<button key=${name}
        aria-pressed=${name === status} onClick=${() => keepInAddress({ status: name })}>${label}</button>`)}
        <button onClick=${again}>Refresh</button></div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : !value ? html`<${Loading} />`
        : !value.items.length ? html`<${Empty} title=${status ? `No runs are ${status}` : 'No runs yet'}>
            <p>Every time an agent is asked, it makes a run.</p><pre>awaken run app.py "Hello"</pre></${Empty}>`
        : html`<${RunList} runs=${value.items} />
          ${value.cursor && html`<div class="more-button"><button onClick=${() => setLimit(limit + PAGE)}>Show more</button></div>`}`}
    </div>
  </div>`;
}

/** @param {{runs: any[]}} props */
export function RunList({ runs }) {
  return html`<ul class="list">${runs.map((run) => html`<li key=${run.run_id}>
    <a class="item" href=${`/console/runs/${part(run.run_id)}`}>
      <${Shape} of=${runStatus(run)} />
      <span class="title"><b><${Text} of=${run.agent_id} /></b> <code>${short(run.run_id)}</code></span>
      <span class="about">${run.kind !== 'agent' ? `${run.kind} · ` : ''}<${Text} of=${whyEnded(run.termination) || plain(run.response ?? '') || statusOf(runStatus(run)).word} /></span>
      <span class="when"><${When} at=${run.started_at ?? run.created_at} /></span>
      <span class="more">${sums(run)}${run.finished_at && run.started_at ? ` · ${took(run.finished_at - run.started_at)}` : ''}</span>
    </a></li>`)}</ul>`;
}
