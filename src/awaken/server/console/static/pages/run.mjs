/** One run: its tree, live, its timeline, and each of its steps. */

import { get, may, part } from '../api.mjs';
import { money, runStatus, short, statusOf, tokens, formatDuration } from '../format.mjs';
import { addressOf, keepInAddress, place, useKeys } from '../router.mjs';
import { announce, entitle, Reconnecting } from '../shell.mjs';
import { RunTree } from '../tree.mjs';
import { busyTimes, failures, fillWords, filterOf, makeScale, reach } from '../tree_views.mjs';
import { html, useEffect, useMemo, useRef, useState } from '../view.mjs';
import { followThread } from '../wire.mjs';
import { CancelDialog } from '../parts/dialogs.mjs';
import { Empty, Failed, Loading, useLoaded } from '../parts/faces.mjs';
import { Inspector } from '../parts/inspector.mjs';
import { Rows, Strip } from '../parts/rows.mjs';
import { now, Text } from '../parts/text.mjs';

const LONG = 300;
const OUTLINE_PAGE = 1000;
const AGAIN_MS = 2000;
/** How often rows that are read on are drawn. */
const READ_ON_MS = 1000;

/** @param {{id: string}} props */
export function RunPage({ id }) {
  const { value, error, again } = useLoaded(() => load(id), [id]);
  if (error) return html`<${Failed} error=${error} onRetry=${again} isPage />`;
  if (!value) return html`<${Loading} />`;
  return html`<${Run} key=${id} known=${value} again=${again} />`;
}

/** The record of a run, the first rows of its steps, and where its events begin. @param {string} id */
async function load(id) {
  const asked = get(`/v1/runs/${part(id)}`);
  const thread = asked.then((run) => get(`/v1/threads/${part(run.thread_id)}`));
  const [run, outline] = await Promise.all([asked, rowsBehind(id, 0, LONG + 1), thread]);
  return { run, outline, thread: await thread };
}

/** @param {string} id @param {number} after @param {number} limit */
const rowsBehind = (id, after, limit) => get(`/v1/runs/${part(id)}/outline`, { after, limit });

/** @param {any} known */
function buildTree({ run, thread, outline }) {
  const tree = new RunTree(run.run_id);
  tree.root.label = run.agent_id;
  tree.root.threadId = run.thread_id;
  const isLong = outline.items.length > LONG;
  if (isLong) {
    tree.root.startedAt = run.started_at ?? run.created_at;
    tree.root.endedAt = run.finished_at;
    tree.root.status = runStatus(run);
    tree.outline(outline.items);
  }
  const first = outline.items[0]?.seq ?? 1;
  return { tree, after: isLong ? thread.event_count : Math.max(0, first - 2) };
}

/** @param {{known: any, again: () => void}} props */
function Run({ known, again }) {
  const { run, thread, outline } = known;
  const grown = useMemo(() => buildTree(known), [known]);
  const { tree } = grown;
  const [version, setVersion] = useState(0);
  const [isCancelling, setIsCancelling] = useState(false);
  const changed = () => setVersion((n) => n + 1);
  const words = useRef(new Map(outline.items.map((/** @type {any} */ row) => [row.message_id, row])));
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  const isWhole = !outline.has_more || whole === known;

  // The first rows of a long run are shown at once. It is followed when all rows are known, so that they are in order.
  useEffect(() => {
    let isWanted = true;
    const readOn = async () => {
      let drawnAt = Date.now();
      for (let page = outline; page.has_more && isWanted;) {
        page = await rowsBehind(run.run_id, page.items[page.items.length - 1].step, OUTLINE_PAGE);
        if (!isWanted) return;
        for (const row of page.items) words.current.set(row.message_id, row);
        tree.outline(page.items);
        if (page.has_more && Date.now() - drawnAt < READ_ON_MS) continue;
        changed();
        drawnAt = Date.now();
      }
      setWhole(known);
    };
    readOn().catch(() => setTimeout(() => isWanted && again(), AGAIN_MS));
    return () => void (isWanted = false);
  }, [known]);

  useEffect(() => isWhole ? followThread({
    thread: run.thread_id,
    root: outline.root_thread_id,
    after: String(grown.after),
    onError: again,
    onBatch(events) {
      const before = tree.root.status;
      for (const envelope of events) tree.take(envelope);
      if (tree.isVoid) return again();
      fillWords(tree, words.current);
      if (tree.root.status !== before) announce(`run ${statusOf(tree.root.status).word}`);
      changed();
    },
  }) : undefined, [known, isWhole]);

  const { query } = place.value;
  const fits = useMemo(() => filterOf(query, tree), [query.show, query.find, version]);
  const rows = useMemo(() => tree.rows(fits), [version, fits]);
  const selected = tree.nodes.get(query.node ?? '') ?? tree.asking() ?? tree.root;
  const isLive = tree.root.status === 'running';
  const time = isLive ? now.value : 0;
  const scale = useMemo(() => makeScale(busyTimes(tree, time || tree.root.startedAt)), [version, isLive && Math.floor(time / 1000)]);
  const select = (/** @type {any} */ node) => keepInAddress({ node: node.id });
  const strip = useMemo(() => html`<${Strip} steps=${tree.root.children.filter((one) => one.kind === 'step')}
    scale=${scale} now=${time} onSelect=${select} />`, [version, scale]);
  const fold = async (/** @type {any} */ node, /** @type {boolean} */ isOpen) => {
    node.isOpen = isOpen;
    changed();
    if (isOpen && node.more.isUnread) {
      const step = await get(`/v1/runs/${part(node.runId)}/steps/${node.more.number}`);
      tree.fill(node, step.events);
      changed();
    }
  };
  const toFailure = (/** @type {number} */ by) => {
    const found = failures(tree, selected, by);
    if (found) select(found);
  };
  useKeys({
    n: () => toFailure(1),
    p: () => toFailure(-1),
    x: () => isOpen(tree.root) && may('decide', 'invoke') && setIsCancelling(true),
  });
  entitle(thread.title || thread.id);

  return html`<div class="screen sided">
    <${Head} run=${run} thread=${thread} tree=${tree} time=${time} onCancel=${() => setIsCancelling(true)} />
    <div class="run">
      <${Reconnecting} />
      ${strip}
      <${Filters} query=${query} />
      <div class="row column-names" aria-hidden="true"><span>step</span><span class="number">tokens</span>
        <span class="number">cost</span><span class="number">took</span><span>timeline</span></div>
      ${rows.length
        ? html`<${Rows} rows=${rows} selected=${selected} version=${version} isLive=${isLive} scale=${scale} now=${time}
            onSelect=${select} onFold=${fold} />`
        : html`<${Empty} title="Nothing fits"><button onClick=${() => keepInAddress({ show: null, find: null })}>Show everything</button></${Empty}>`}
    </div>
    <${Inspector} node=${selected} tab=${query.tab ?? ''} version=${version} />
    ${isCancelling && html`<${CancelDialog} run=${run} reach=${reach(tree)} onClose=${() => setIsCancelling(false)} />`}
  </div>`;
}

const SHOW = { '': 'all', failed: 'failed', asks: 'asks', slow: 'slow' };

/** @param {{query: Record<string, string>}} props */
function Filters({ query }) {
  const show = query.show ?? '';
  return html`<div class="filters" role="group" aria-label="Filter">
    ${Object.entries(SHOW).map(([name, label]) => html`<button key=${name} aria-pressed=${name === show}
      onClick=${() => keepInAddress({ show: name })}>${label}</button>`)}
    <input type="search" placeholder="tool, model or words" aria-label="Find in this run" value=${query.find ?? ''}
      onInput=${(/** @type {any} */ event) => keepInAddress({ find: event.target.value })} />
  </div>`;
}

/** @param {any} node */
const isOpen = (node) => ['running', 'waits', 'created'].includes(node.status);

/** @param {any} props */
function Head({ run, thread, tree, time, onCancel }) {
  const { root } = tree;
  const { word } = statusOf(root.status);
  const steps = Math.max(tree.runs.get(run.run_id)?.steps ?? 0, 0);
  return html`<div class="head-bar">
    <div><h1><${Text} of=${thread.title || thread.id} /></h1>
      <p class="sub">thread <a class="cut" href=${addressOf(['threads', run.thread_id])}><${Text} of=${run.thread_id} /></a> · run <code title=${run.run_id}>${short(run.run_id)}</code> · agent <b><${Text} of=${run.agent_id} /></b></p></div>
    <div class="stats">
      <span><b>${steps}</b>${steps === 1 ? 'step' : 'steps'}</span>
      <span><b>${tokens(root.tokens) || 0}</b>tokens</span>
      <span><b>${root.tokens ? money(root.cost, root.hasUnknownCost) : '—'}</b>cost</span>
      <span><b>${formatDuration(root.duration(time)) || '—'}</b>took</span>
    </div>
    <div class="acts">
      <span class=${`badge ${root.status}`} role="status">${root.status === 'running' ? 'live' : word}</span>
      ${isOpen(root) && may('decide', 'invoke') && html`<button class="no" onClick=${onCancel}>Cancel</button>`}
    </div>
  </div>`;
}
