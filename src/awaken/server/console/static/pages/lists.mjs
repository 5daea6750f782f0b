/** All conversations, newest first. */

import { get, may, part } from '../api.mjs';
import { money, plain, runStatus, short, statusOf, tokens, formatDuration, endReason } from '../format.mjs';
import { addressOf, keepInAddress, place, useKeys } from '../router.mjs';
import { entitle } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { changes } from '../wire.mjs';
import { Empty, Failed, Loaded, Loading, Unreadable, useLoaded } from '../parts/faces.mjs';
import { Shape, Text, When } from '../parts/text.mjs';

const PAGE = 50;
const newThread = async () => (await import('../parts/dialogs.mjs')).NewThread;

export function ThreadsPage() {
  const [limit, setLimit] = useState(PAGE);
  const isNew = Boolean(place.value.query.new) && may('invoke');
  const setIsNew = (/** @type {boolean} */ isIt) => keepInAddress({ new: isIt ? '1' : null });
  useKeys({ n: () => may('invoke') && setIsNew(true) });
  const q = place.value.query.q ?? '';
  const { value, error, again } = useLoaded(() => asked(q, q ? search('threads', q, limit) : load(limit)), [limit, q]);
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
      <div class="acts"><${SearchField} />
        <button onClick=${again}>Refresh</button>
        ${may('invoke') && html`<button class="main" onClick=${() => setIsNew(true)}>New thread<kbd>n</kbd></button>`}
      </div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : value?.q !== q ? html`<${Loading} />`
        : q ? html`<${Hits} found=${value} />${value.cursor && html`<${More} onClick=${() => setLimit(limit + PAGE)} />`}`
        : html`<${Unreadable} rows=${value.unreadable} /><${Threads} threads=${value.items} hasMore=${Boolean(value.cursor)} />
          ${value.cursor && html`<${More} onClick=${() => setLimit(limit + PAGE)} />`}`}
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

/** @param {{threads: any[], hasMore: boolean}} props */
function Threads({ threads, hasMore }) {
  if (!threads.length && !hasMore) {
    return html`<${Empty} title="No threads yet">
      <p>A thread is a conversation with an agent. Begin one here, or from a terminal:</p>
      <pre>awaken run app.py "Hello"</pre></${Empty}>`;
  }
  return html`<ul class="list">${threads.map((thread) => html`<li key=${thread.id}>
    <a class="item" href=${addressOf(['threads', thread.id])}>
      <${Shape} of=${thread.run ? runStatus(thread.run) : 'created'} />
      <span class="title"><b><${Text} of=${thread.title || thread.id} /></b></span>
      <span class="about">${aboutOf(thread)}</span>
      <span class="when"><${When} at=${thread.active_at || thread.updated_at} /></span>
      <span class="more" title="its latest run, without what that has started">${thread.run && sums(thread.run)}</span>
    </a></li>`)}</ul>`;
}

/** @param {any} thread */
function aboutOf({ run, message_count: count }) {
  const messages = `${count} message${count === 1 ? '' : 's'}`;
  if (!run) return messages;
  const text = run.status === 'done' ? run.response : '';
  return html`<${Text} of=${run.agent_id} /> · ${text ? html`<${Text} of=${plain(text)} />` : `${statusOf(runStatus(run)).word} · ${messages}`}`;
}

/** @param {any} run */
function sums(run) {
  const used = run.usage.total_tokens;
  return used ? `${tokens(used)} tok · ${money(run.cost)}` : `${run.steps} step${run.steps === 1 ? '' : 's'}`;
}

// -- Searching: the words and filters stand in the address, so that a link shows the same.

const MOST_HITS = 200;

/** @param {'threads' | 'runs'} kind @param {string} q @param {number} limit */
const search = (kind, q, limit) => get('/v1/search', { kind, q, limit: Math.min(limit, MOST_HITS) });

/** What was loaded, with the search it is of: what is shown may still be that of another one.
 * @param {string} q @param {Promise<any>} page */
const asked = async (q, page) => ({ ...(await page), q });

function SearchField() {
  const q = place.value.query.q ?? '';
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  const search = () => keepInAddress({ q: text.trim() || null });
  return html`<div class="filters" role="search">
    <input type="search" aria-label="Words and filters" placeholder="words, agent: user: after:7d" value=${text}
      title='words, "phrases", agent: tool: model: status: label: user: before: after: cost:>1 tokens:>10k'
      onInput=${(/** @type {any} */ event) => setText(event.target.value)} onSearch=${search}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === 'Enter' && search()} /></div>`;
}

/** @param {{onClick: () => void}} props */
const More = ({ onClick }) => html`<div class="more-button"><button onClick=${onClick}>Show more</button></div>`;

/** @param {{found: any, isOfRuns?: boolean}} props */
function Hits({ found, isOfRuns }) {
  const note = found.is_complete ? '' : 'The index is being built: this is a part of what there is.';
  return html`${note && html`<p class="sub" role="status">${note}</p>`}
    ${found.items.length ? html`<ul class="list">${found.items.map((/** @type {any} */ hit) => html`<li key=${hit.run_id ?? hit.thread_id}>
      <a class="item" href=${addressOf(isOfRuns ? ['runs', hit.run_id] : ['threads', hit.thread_id])}>
        <${Shape} of=${HIT_SHAPES[hit.status] ?? hit.status ?? 'created'} />
        <span class="title"><b><${Text} of=${hit.title || hit.question || hit.thread_id} /></b></span>
        <span class="about">${hit.agent_id && html`<${Text} of=${hit.agent_id} /> · `}<${Text} of=${hit.snippet || hit.question} /></span>
        <span class="when"><${When} at=${hit.started_at} /></span>
        <span class="more" title="its own steps, without what it has started">${hit.tokens ? `${tokens(hit.tokens)} tok · ${money(hit.cost)}` : ''}</span>
      </a></li>`)}</ul>`
    : html`<${Empty} title="Nothing was found"><p>All of the words must be in one run. Filters are agent: tool: model: status: label: user: before: after: cost: and tokens:</p></${Empty}>`}`;
}

/** @type {Record<string, string>} */
const HIT_SHAPES = { finished: 'done', waiting: 'waits', blocked: 'failed' };

// -- All runs, newest first.

const FILTERS = { '': 'all', running: 'running', waiting: 'waiting', done: 'done', failed: 'failed' };
/** What the list of runs cannot be asked for, and the search can. */
const SEARCHED = ['failed'];

export function RunsPage() {
  const [limit, setLimit] = useState(PAGE);
  const status = place.value.query.status ?? '';
  const words = place.value.query.q ?? '';
  const q = words || SEARCHED.includes(status) ? `${words}${status && ` status:${status}`}`.trim() : '';
  const { value, error, again } = useLoaded(
    () => asked(q, q ? search('runs', q, limit) : get('/v1/runs', { limit, status: status || undefined })), [limit, status, q],
  );
  entitle('Runs');
  return html`<div class="screen">
    <div class="head-bar"><div><h1>Runs</h1><p class="sub">what agents did, newest first</p></div>
      <div class="acts"><${SearchField} />${Object.entries(FILTERS).map(([name, label]) => html`<button key=${name}
        aria-pressed=${name === status} onClick=${() => keepInAddress({ status: name })}>${label}</button>`)}
        <button onClick=${again}>Refresh</button></div></div>
    <div class="body">
      ${error ? html`<${Failed} error=${error} onRetry=${again} />`
        : value?.q !== q ? html`<${Loading} />`
        : q ? html`<${Hits} found=${value} isOfRuns=${true} />${value.cursor && html`<${More} onClick=${() => setLimit(limit + PAGE)} />`}`
        : !value.items.length && !value.cursor ? html`<${Unreadable} rows=${value.unreadable} /><${Empty} title=${status ? `No runs are ${status}` : 'No runs yet'}>
            <p>Every time an agent is asked, it makes a run.</p><pre>awaken run app.py "Hello"</pre></${Empty}>`
        : html`<${Unreadable} rows=${value.unreadable} /><${RunList} runs=${value.items} />
          ${value.cursor && html`<${More} onClick=${() => setLimit(limit + PAGE)} />`}`}
    </div>
  </div>`;
}

/** @param {{runs: any[]}} props */
export function RunList({ runs }) {
  return html`<ul class="list">${runs.map((run) => html`<li key=${run.run_id}>
    <a class="item" href=${addressOf(['runs', run.run_id])}>
      <${Shape} of=${runStatus(run)} />
      <span class="title"><b><${Text} of=${run.agent_id} /></b> <code>${short(run.run_id)}</code></span>
      <span class="about">${run.kind !== 'agent' ? `${run.kind} · ` : ''}<${Text} of=${endReason(run.termination) || plain(run.response ?? '') || statusOf(runStatus(run)).word} /></span>
      <span class="when"><${When} at=${run.started_at ?? run.created_at} /></span>
      <span class="more" title="its own steps, without what it has started">${sums(run)}${run.finished_at && run.started_at ? ` · ${formatDuration(run.finished_at - run.started_at)}` : ''}</span>
    </a></li>`)}</ul>`;
}

// -- The audit.

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
        : !value.items.length ? html`<${Unreadable} rows=${value.unreadable} /><${Empty} title="Nothing was done yet" />`
        : html`<${Unreadable} rows=${value.unreadable} /><table class="wide"><thead><tr><th>when</th><th>who</th><th>what</th><th>on</th><th>from</th><th>outcome</th></tr></thead>
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
