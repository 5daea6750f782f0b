/** All conversations, newest first. */

import { get, part } from '../api.mjs';
import { runStatus, money, plain, statusOf, tokens } from '../format.mjs';
import { may } from '../session.mjs';
import { entitle } from '../shell.mjs';
import { changes } from '../tickets.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { Empty, Failed, Loaded, Loading, useLoaded } from '../parts/faces.mjs';
import { Shape, Text, When } from '../parts/text.mjs';

const PAGE = 50;
const newThread = async () => (await import('../parts/new_thread.mjs')).NewThread;

export function ThreadsPage() {
  const [limit, setLimit] = useState(PAGE);
  const [isNew, setIsNew] = useState(false);
  const { value, error, again } = useLoaded(() => load(limit), [limit]);
  entitle('Threads');
  useEffect(() => {
    addEventListener('focus', again);
    return () => removeEventListener('focus', again);
  }, []);
  const known = useRef(changes.value);
  useEffect(() => {
    if (known.current !== changes.value) again();
    known.current = changes.value;
  }, [changes.value]);
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Threads</h1><p class="sub">conversations, newest first</p></div>
      <div class="acts">
        <button onClick=${again}>Refresh</button>
        ${may('invoke') && html`<button class="main" onClick=${() => setIsNew(true)}>New thread</button>`}
      </div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : !value ? html`<${Loading} />`
        : html`<${Threads} threads=${value.items} />
          ${value.cursor && html`<div class="more-button"><button onClick=${() => setLimit(limit + PAGE)}>Show more</button></div>`}`}
    </div>
    ${isNew && html`<${Loaded} load=${newThread} onClose=${() => setIsNew(false)} />`}
  </div>`;
}

/** @param {number} limit */
async function load(limit) {
  const page = await get('/v1/threads', { root: true, limit });
  const latest = await latestRuns(page.items);
  return { ...page, items: page.items.map((/** @type {any} */ thread) => ({ ...thread, run: latest.get(thread.latest_run_id) })) };
}

/** The latest run of each thread. @param {any[]} threads */
async function latestRuns(threads) {
  const { items } = await get('/v1/runs', { limit: 200 });
  const found = new Map(items.map((/** @type {any} */ run) => [run.run_id, run]));
  const missing = threads.map((thread) => thread.latest_run_id).filter((id) => id && !found.has(id));
  const runs = await Promise.all(missing.map((id) => get(`/v1/runs/${part(id)}`).catch(() => null)));
  for (const run of runs) if (run) found.set(run.run_id, run);
  return found;
}

/** @param {{threads: any[]}} props */
function Threads({ threads }) {
  if (!threads.length) {
    return html`<${Empty} title="No threads yet">
      <p>A thread is a conversation with an agent. Begin one here, or from a terminal:</p>
      <pre>awaken run app.py "Hello"</pre></${Empty}>`;
  }
  return html`<ul class="list">${threads.map((thread) => html`<li key=${thread.id}>
    <a class="item" href=${`/console/threads/${part(thread.id)}`}>
      <${Shape} of=${thread.run ? runStatus(thread.run) : 'created'} />
      <span class="title"><b><${Text} of=${thread.title || thread.id} /></b></span>
      <span class="about">${aboutOf(thread)}</span>
      <span class="when"><${When} at=${thread.active_at || thread.updated_at} /></span>
      <span class="more">${thread.run && sums(thread.run)}</span>
    </a></li>`)}</ul>`;
}

/** @param {any} thread */
function aboutOf({ run, message_count: count }) {
  const messages = `${count} message${count === 1 ? '' : 's'}`;
  if (!run) return messages;
  const said = run.status === 'done' ? run.response : '';
  return html`<${Text} of=${run.agent_id} /> · ${said ? html`<${Text} of=${plain(said)} />` : `${statusOf(runStatus(run)).word} · ${messages}`}`;
}

/** @param {any} run */
export function sums(run) {
  const used = run.usage.total_tokens;
  return used ? `${tokens(used)} tok · ${money(run.cost)}` : `${run.steps} step${run.steps === 1 ? '' : 's'}`;
}
