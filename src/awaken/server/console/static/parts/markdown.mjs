/** Text that a model wrote, with its Markdown. */

import { blocksOf } from '../markdown.mjs';
import { html } from '../view.mjs';
import { Text } from './text.mjs';

/** @param {{of: string}} props */
export function Markdown({ of }) {
  return html`<div class="markdown">${blocksOf(of).map((block, index) => html`<${Block} key=${index} block=${block} />`)}</div>`;
}

/** @param {{block: import('../markdown.mjs').Block}} props */
function Block({ block }) {
  const spans = (block.spans ?? []).map((span, index) => html`<${Span} key=${index} span=${span} />`);
  switch (block.kind) {
    case 'table':
      return html`<${Table} rows=${block.rows ?? []} />`;
    case 'code':
      return html`<pre><${Text} of=${block.text} /></pre>`;
    case 'heading':
      return html`<p class="heading" dir="auto">${spans}</p>`;
    case 'quote':
      return html`<blockquote dir="auto">${spans}</blockquote>`;
    case 'item':
      return html`<p dir="auto" class=${`list-item deep-${block.level}`}><span class="list-mark">${block.mark}</span><span>${spans}</span></p>`;
    default:
      return html`<p dir="auto">${spans}</p>`;
  }
}

/** @param {{rows: import('../markdown.mjs').Span[][][]}} props */
function Table({ rows: [head, ...body] }) {
  const cells = (/** @type {import('../markdown.mjs').Span[][]} */ row, /** @type {string} */ tag) =>
    row.map((spans, at) => html`<${tag} key=${at} dir="auto">${spans.map((span, index) => html`<${Span} key=${index} span=${span} />`)}</${tag}>`);
  return html`<div class="table-box" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${cells(head, 'th')}</tr></thead>
    <tbody>${body.map((row, at) => html`<tr key=${at}>${cells(row, 'td')}</tr>`)}</tbody></table></div>`;
}

/** @param {{span: import('../markdown.mjs').Span}} props */
function Span({ span }) {
  const text = html`<${Text} of=${span.text} />`;
  switch (span.kind) {
    case 'strong':
      return html`<strong>${text}</strong>`;
    case 'emphasis':
      return html`<em>${text}</em>`;
    case 'code':
      return html`<code>${text}</code>`;
    case 'link':
      return html`<a href=${span.href} target="_blank" rel="noopener noreferrer">${text}</a>${span.text.includes(hostOf(span.href)) ? '' : html` <small>(${hostOf(span.href)})</small>`}`;
    default:
      return text;
  }
}

/** @param {string | undefined} href */
function hostOf(href) {
  try {
    const { host, pathname } = new URL(href ?? '');
    return host || pathname;
  } catch {
    return href ?? '';
  }
}
