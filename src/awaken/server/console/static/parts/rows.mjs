/** The rows of the tree. Only those in sight are in the page. */

import { money, plain, statusOf, tokens, formatDuration } from '../format.mjs';
import { isRoomy } from '../shell.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { Text } from './text.mjs';

const BEYOND = 8;
/** The page is drawn again when so many rows were scrolled by. */
const STRIDE = 4;
const ICONS = { run: '●', agent: '◆', step: '○', model: '✦', call: '⚙', mark: '↻' };

/**
 * @param {{rows: any[], selected: any, version: number, isLive: boolean, scale: any, now: number,
 *   onSelect: (node: any) => void, onFold: (node: any, isOpen: boolean) => void}} props
 */
export function Rows({ rows, selected, version, isLive, scale, now, onSelect, onFold }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [at, setAt] = useState(0);
  const [{ height, row }, setSize] = useState({ height: 800, row: 26 });
  const [follows, setFollows] = useState(isLive);
  const seen = useRef(rows.length);

  const look = () => {
    if (!box.current) return;
    const { scrollTop } = box.current;
    setAt(Math.floor(scrollTop / row / STRIDE) * STRIDE);
    setFollows(rows.length * row - scrollTop - height < row);
  };
  const measure = () => {
    if (!box.current) return;
    // The height of a row is that of a line of the tree: it grows with the reader's text.
    const size = { height: box.current.clientHeight, row: parseFloat(getComputedStyle(box.current).lineHeight) };
    setSize((was) => (was.height === size.height && was.row === size.row ? was : size));
  };
  useEffect(() => {
    const watcher = new ResizeObserver(measure);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(measure, [isRoomy.value]);
  useEffect(look, [height, row]);
  useEffect(() => {
    if (follows && isLive && box.current) box.current.scrollTop = box.current.scrollHeight;
    if (follows) seen.current = rows.length;
  }, [version, follows]);

  const index = rows.indexOf(selected);
  const show = (/** @type {number} */ to) => {
    const node = rows[Math.max(0, Math.min(rows.length - 1, to))];
    onSelect(node);
    const top = rows.indexOf(node) * row;
    const shown = /** @type {HTMLElement} */ (box.current);
    if (top < shown.scrollTop) shown.scrollTop = top;
    else if (top + row > shown.scrollTop + height) shown.scrollTop = top + row - height;
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const move = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move({ index, last: rows.length - 1, node: rows[index] ?? rows[0], rows, show, onFold });
  };
  const press = (/** @type {any} */ { target, type }) => {
    const node = rows[Number(target.closest('.row')?.id.slice(4))];
    if (!node) return;
    if (type === 'dblclick' || target.closest('.twist')) onFold(node, !node.isOpen);
    else onSelect(node);
  };

  const first = Math.max(0, at - BEYOND);
  const size = Math.ceil(height / row) + STRIDE + 2 * BEYOND;
  const shown = rows.slice(first, first + size);
  const newCount = rows.length - seen.current;
  // A row that leaves at one end comes back at the other as another one: no element is made anew.
  return html`
    <div class="tree" role="tree" aria-label="Steps of the run" tabindex="0" ref=${box}
      aria-activedescendant=${shown.includes(selected) ? `row-${index}` : undefined}
      onScroll=${look} onKeyDown=${onKeyDown} onClick=${press} onDblClick=${press}>
      <div class="tree-height" role="presentation" style=${{ height: `${rows.length * row}px` }}>
        ${shown.map((node, offset) => html`<${Row} key=${(first + offset) % size} node=${node}
          index=${first + offset} top=${(first + offset) * row} isSelected=${node === selected} scale=${scale} now=${now} />`)}
      </div>
    </div>
    ${isLive && !follows && newCount > 0 && html`<button class="to-end main"
      onClick=${() => setFollows(true)}>↓ ${newCount} new</button>`}`;
}

/** @type {Record<string, (at: any) => void>} */
const KEYS = {
  ArrowDown: ({ index, show }) => show(index + 1),
  ArrowUp: ({ index, show }) => show(index - 1),
  j: ({ index, show }) => show(index + 1),
  k: ({ index, show }) => show(index - 1),
  Home: ({ show }) => show(0),
  End: ({ last, show }) => show(last),
  PageDown: ({ index, show }) => show(index + 20),
  PageUp: ({ index, show }) => show(index - 20),
  ArrowRight: ({ node, index, show, onFold }) => (hasMore(node) && !node.isOpen ? onFold(node, true) : show(index + 1)),
  ArrowLeft: ({ node, rows, show, onFold }) => {
    if (hasMore(node) && node.isOpen) onFold(node, false);
    else if (node.parent) show(rows.indexOf(node.parent));
  },
  // Steps of a long run that were not read yet stay folded: they may be thousands.
  '*': ({ node, onFold }) => [node, ...beneath(node)].forEach((one) => one.children.length > 0 && onFold(one, true)),
};

/** @param {any} node */
const hasMore = (node) => node.children.length > 0 || Boolean(node.more.isUnread);

/** @param {any} node @returns {any[]} */
const beneath = (node) => node.children.flatMap((/** @type {any} */ child) => [child, ...beneath(child)]);

const TOLD = ['failed', 'denied', 'expired', 'cancelled', 'waits', 'superseded', 'stopped'];

/** One row. Its parts are plain functions, since there are many rows, and all are drawn again as one scrolls.
 * @param {any} props */
function Row({ node, index, top, isSelected, scale, now }) {
  const isFoldable = hasMore(node);
  const { status, kind } = node;
  return html`<div id=${`row-${index}`} class=${`row ${status}`} role="treeitem"
    aria-level=${node.depth + 1} aria-setsize=${node.parent?.children.length ?? 1} aria-posinset=${node.place}
    aria-selected=${isSelected} aria-expanded=${isFoldable ? node.isOpen : undefined}
    style=${{ transform: `translateY(${top}px)` }}>
    <span class="name" style=${{ paddingLeft: `${node.depth * 14}px` }}>
      <span class=${isFoldable ? 'twist' : 'no-twist'} aria-hidden="true">${isFoldable && (node.isOpen ? '▾' : '▸')}</span>
      <i class=${`icon ${kind}`} aria-hidden="true">${isDelegate(node) ? '⇄' : ICONS[/** @type {'run'} */ (kind)]}</i>
      ${label(node)}
      ${TOLD.includes(status) && html`<span class=${`badge ${status}`}>${status === 'waits' ? 'asks' : statusOf(status).word}</span>`}
      ${status === 'running' && html`<span class="pulse" title="running"></span>`}
    </span>
    <span class="number" title=${node.tokens ? `${node.input} in, ${node.output} out` : ''}>${tokens(node.tokens)}</span>
    <span class="number">${node.tokens ? money(node.cost, node.hasUnknownCost) : ''}</span>
    <span class="number">${kind === 'mark' ? '' : formatDuration(node.duration(now))}</span>
    <span class="track">${node.startedAt && kind !== 'mark' ? bar(node, scale, now) : ''}</span>
  </div>`;
}

/** @param {any} node */
const isDelegate = (node) => node.kind === 'call' && node.children.length > 0;

/** @param {any} node */
function label(node) {
  if (node.kind !== 'step') return html`<span class="words">${Text({ of: node.more.title || node.label || node.kind })}</span>`;
  return html`<span>step ${node.more.number}</span>
    ${node.label && html`<span class="words said">“${Text({ of: plain(node.label) })}”</span>`}`;
}

/** @param {any} node @param {any} scale @param {number} now */
function bar(node, scale, now) {
  const left = scale.place(node.startedAt) * 100;
  const right = scale.place(node.endedAt ?? (node.status === 'running' ? now : node.startedAt)) * 100;
  return html`<i class=${`${node.kind} ${['run', 'agent'].includes(node.kind) ? '' : node.status}`} style=${{ left: `${Math.min(left, 99.5)}%`, width: `${Math.max(right - left, 0.3)}%` }}></i>
    ${node.depth === 0 && scale.cuts.map((/** @type {any} */ cut) => html`<u style=${{ left: `${cut.at * 100}%` }}></u>`)}`;
}

// -- The overview: one mark for each step, coloured by what went wrong, and the time that was cut
// out.

const WIDE = 1000;
const HIGH = 20;
const STATUSES = ['succeeded', 'running', 'cancelled', 'denied', 'waits', 'failed'];

/** @param {{steps: any[], scale: any, now: number, onSelect: (node: any) => void}} props */
export function Strip({ steps, scale, now, onSelect }) {
  const most = steps.reduce((found, step) => Math.max(found, step.tokens), 1);
  /** @type {Map<string, string>} one path for each status, however many steps there are */
  const paths = new Map(STATUSES.map((status) => [status, '']));
  let last = -1;
  for (const step of steps) {
    const left = scale.place(step.startedAt) * WIDE;
    // Of thousands of steps many lie on one point: there it is enough to see that one went wrong.
    if (steps.length > WIDE && Math.floor(left) === last && step.status === 'succeeded') continue;
    last = Math.floor(left);
    const width = Math.max(1.5, scale.place(step.endedAt ?? now) * WIDE - left - 1);
    const height = 5 + (HIGH - 6) * (step.tokens / most);
    const status = paths.has(step.status) ? step.status : 'succeeded';
    paths.set(status, `${paths.get(status)}M${left.toFixed(1)} ${HIGH}v-${height.toFixed(1)}h${width.toFixed(1)}v${height.toFixed(1)}z`);
  }
  const select = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    const at = (event.clientX - box.left) / box.width;
    const before = steps.filter((step) => scale.place(step.startedAt) <= at);
    onSelect(before[before.length - 1] ?? steps[0]);
  };
  return html`<div class="strip">
    <svg role="img" aria-label=${`${steps.length} steps over time`} viewBox=${`0 0 ${WIDE} ${HIGH}`}
      preserveAspectRatio="none" onClick=${steps.length ? select : undefined}>
      ${[...paths].map(([status, path]) => path && html`<path key=${status} class=${status} d=${path}></path>`)}
      ${scale.cuts.map((/** @type {any} */ cut) => html`<line key=${cut.at} x1=${cut.at * WIDE} x2=${cut.at * WIDE}
        y1="0" y2=${HIGH}><title>${formatDuration(cut.ms)} without work</title></line>`)}
    </svg>
  </div>`;
}
