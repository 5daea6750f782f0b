/** The rows of the tree. Only those in sight are in the page. */

import { money, plain, statusOf, took, tokens } from '../format.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { Text } from './text.mjs';

const BEYOND = 8;
const ICONS = { run: '●', agent: '◆', step: '○', model: '✦', call: '⚙', mark: '↻' };

/**
 * @param {{rows: any[], selected: any, version: number, isLive: boolean, scale: any, now: number,
 *   onSelect: (node: any) => void, onFold: (node: any, isOpen: boolean) => void}} props
 */
export function Rows({ rows, selected, version, isLive, scale, now, onSelect, onFold }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [sight, setSight] = useState({ top: 0, height: 800, row: 26 });
  const [follows, setFollows] = useState(isLive);
  const seen = useRef(rows.length);

  const look = () => {
    if (!box.current) return;
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    const row = parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) || 26;
    setSight((was) => (was.top === scrollTop && was.height === clientHeight ? was : { top: scrollTop, height: clientHeight, row }));
    setFollows(scrollHeight - scrollTop - clientHeight < row);
  };
  useEffect(() => {
    const watcher = new ResizeObserver(look);
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useEffect(() => {
    if (follows && isLive && box.current) box.current.scrollTop = box.current.scrollHeight;
    if (follows) seen.current = rows.length;
  }, [version, follows]);

  const index = rows.indexOf(selected);
  const show = (/** @type {number} */ to) => {
    const node = rows[Math.max(0, Math.min(rows.length - 1, to))];
    onSelect(node);
    const top = rows.indexOf(node) * sight.row;
    const shown = /** @type {HTMLElement} */ (box.current);
    if (top < shown.scrollTop) shown.scrollTop = top;
    else if (top + sight.row > shown.scrollTop + sight.height) shown.scrollTop = top + sight.row - sight.height;
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    const move = KEYS[/** @type {keyof typeof KEYS} */ (event.key)];
    if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    move({ index, last: rows.length - 1, node: rows[index] ?? rows[0], rows, show, onFold });
  };

  const first = Math.max(0, Math.floor(sight.top / sight.row) - BEYOND);
  const last = Math.min(rows.length, Math.ceil((sight.top + sight.height) / sight.row) + BEYOND);
  const fresh = rows.length - seen.current;
  return html`
    <div class="tree" role="tree" aria-label="Steps of the run" tabindex="0" ref=${box}
      aria-activedescendant=${index >= first && index < last ? `row-${index}` : undefined}
      onScroll=${look} onKeyDown=${onKeyDown}>
      <div class="tree-height" role="presentation" style=${{ height: `${rows.length * sight.row}px` }}>
        ${rows.slice(first, last).map((node, offset) => html`<${Row} key=${node.id} node=${node}
          index=${first + offset} top=${(first + offset) * sight.row} isSelected=${node === selected}
          scale=${scale} now=${now} version=${version} onSelect=${onSelect} onFold=${onFold} />`)}
      </div>
    </div>
    ${isLive && !follows && fresh > 0 && html`<button class="to-end main"
      onClick=${() => setFollows(true)}>↓ ${fresh} new</button>`}`;
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
  '*': ({ node, onFold }) => [node, ...beneath(node)].forEach((one) => hasMore(one) && onFold(one, true)),
};

/** @param {any} node */
const hasMore = (node) => node.children.length > 0 || Boolean(node.more.isUnread);

/** @param {any} node @returns {any[]} */
const beneath = (node) => node.children.flatMap((/** @type {any} */ child) => [child, ...beneath(child)]);

/** @param {any} props */
function Row({ node, index, top, isSelected, scale, now, version, onSelect, onFold }) {
  const twist = hasMore(node);
  const { word } = statusOf(node.status);
  const isTold = ['failed', 'denied', 'expired', 'cancelled', 'waits', 'superseded', 'stopped'].includes(node.status);
  const siblings = node.parent?.children ?? [node];
  const fold = (/** @type {Event} */ event) => {
    event.stopPropagation();
    onFold(node, !node.isOpen);
  };
  return html`<div id=${`row-${index}`} class=${`row ${node.status}`} role="treeitem"
    aria-level=${node.depth + 1} aria-setsize=${siblings.length} aria-posinset=${siblings.indexOf(node) + 1}
    aria-selected=${isSelected} aria-expanded=${twist ? node.isOpen : undefined}
    style=${{ transform: `translateY(${top}px)` }} onClick=${() => onSelect(node)} onDblClick=${fold}>
    <span class="name" style=${{ paddingLeft: `${node.depth * 14}px` }}>
      ${twist
        ? html`<span class="twist" aria-hidden="true" onClick=${fold}>${node.isOpen ? '▾' : '▸'}</span>`
        : html`<span class="twist" aria-hidden="true"></span>`}
      <i class=${`icon ${node.kind}`} aria-hidden="true">${isDelegate(node) ? '⇄' : ICONS[/** @type {'run'} */ (node.kind)]}</i>
      <${Label} node=${node} version=${version} />
      ${isTold && html`<span class=${`badge ${node.status}`}>${node.status === 'waits' ? 'asks' : word}</span>`}
      ${node.status === 'running' && html`<span class="pulse" title="running"></span>`}
    </span>
    <span class="number" title=${node.tokens ? `${node.input} in, ${node.output} out` : ''}>${tokens(node.tokens)}</span>
    <span class="number">${node.tokens ? money(node.cost, node.hasUnknownCost) : ''}</span>
    <span class="number">${node.kind === 'mark' ? '' : took(node.duration(now))}</span>
    <${Bar} node=${node} scale=${scale} now=${now} version=${version} />
  </div>`;
}

/** @param {any} node */
const isDelegate = (node) => node.kind === 'call' && node.children.length > 0;

/** @param {{node: any}} props */
function Label({ node }) {
  if (node.kind !== 'step') return html`<span class="words"><${Text} of=${node.more.title || node.label || node.kind} /></span>`;
  return html`<span>step ${node.more.number}</span>
    ${node.label && html`<span class="words said">“<${Text} of=${plain(node.label)} />”</span>`}`;
}

/** @param {any} props */
function Bar({ node, scale, now }) {
  if (!node.startedAt || node.kind === 'mark') return html`<span class="track"></span>`;
  const left = scale.place(node.startedAt) * 100;
  const right = scale.place(node.endedAt ?? (node.status === 'running' ? now : node.startedAt)) * 100;
  return html`<span class="track">
    <i class=${`${node.kind} ${['run', 'agent'].includes(node.kind) ? '' : node.status}`} style=${{ left: `${Math.min(left, 99.5)}%`, width: `${Math.max(right - left, 0.3)}%` }}></i>
    ${node.depth === 0 && scale.cuts.map((/** @type {any} */ cut) => html`<u style=${{ left: `${cut.at * 100}%` }}></u>`)}
  </span>`;
}
