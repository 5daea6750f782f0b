/** Texts of models, tools and people, shown as text. */

import { ago, splitColours, exactly, timeLeft, pieces, statusOf } from '../format.mjs';
import { isExact } from '../json.mjs';
import { blocksOf, hiddenTarget } from '../markdown.mjs';
import { html, signal } from '../view.mjs';

const LONGEST = 256 * 1024;
/** The part of a text whose Markdown is shown: each sign may become an element of the page. */
const LONGEST_MARKDOWN = 64 * 1024;

/** A text; characters that would hide or turn it are shown as marks. @param {{of: any}} props */
export function Text({ of }) {
  const text = String(of ?? '');
  const shown = pieces(text.slice(0, LONGEST)).map((piece) =>
    piece.mark ? html`<span class="mark-character">${piece.mark}</span>` : piece.text,
  );
  if (text.length <= LONGEST) return shown;
  return [...shown, html`<p class="sub">… and ${(text.length - LONGEST).toLocaleString('en')} characters more</p>`];
}

/** What a tool wrote, with the colours that it would have in a terminal. @param {{of: any}} props */
export const Output = ({ of }) => html`<pre dir="auto">${splitColours(String(of ?? '')).map(({ text, colour }, at) =>
  colour === null ? html`<${Text} key=${at} of=${text} />` : html`<span key=${at} class=${`ansi-${colour}`}><${Text} of=${text} /></span>`)}</pre>`;

/** The time, once a second, for everything that says how long ago something was. */
export const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), 1000);

/** How long ago something was: "3 min", or in a sentence "3 min ago".
 * @param {{at: number, isInSentence?: boolean}} props */
export function When({ at, isInSentence = false }) {
  const words = ago(at, now.value);
  const shown = !isInSentence ? words : words === 'now' ? 'just now' : `${words} ago`;
  return html`<time title=${exactly(at)} dateTime=${new Date(at).toISOString()}>${shown}</time>`;
}

/** How much time is left for something. @param {{until: number}} props */
export const Left = ({ until }) => html`<time title=${exactly(until)} dateTime=${new Date(until).toISOString()}>${timeLeft(until, now.value)}</time>`;

/** @param {{of: string}} props */
export function Shape({ of }) {
  const { shape, word } = statusOf(of);
  return html`<span class=${`shape ${of}`} role="img" aria-label=${word} title=${word}>${shape}</span>`;
}

// -- A JSON value as a tree that opens.

const DEEPEST = 64;
const MOST = 200;
const OPEN_UNTIL = 2;

/** @param {{of: any, depth?: number}} props */
export function Json({ of, depth = 0 }) {
  return html`<div class="json"><${Value} of=${of} depth=${depth} /></div>`;
}

/** @param {{of: any, depth: number}} props */
function Value({ of, depth }) {
  if (of === null || typeof of !== 'object' || isExact(of)) return html`<${Plain} of=${of} />`;
  const pairs = Array.isArray(of) ? of.map((value, index) => [index, value]) : Object.entries(of);
  const [left, right] = Array.isArray(of) ? '[]' : '{}';
  if (!pairs.length) return html`<span>${left}${right}</span>`;
  if (depth >= DEEPEST) return html`<span>${left}… nested too deeply …${right}</span>`;
  return html`<details open=${depth < OPEN_UNTIL}>
    <summary>${left}${pairs.length}${right}</summary>
    ${pairs.slice(0, MOST).map(([key, value]) => html`<div class="pair" key=${key}>
      <span class="key"><${Text} of=${key} /></span>${' '}<${Value} of=${value} depth=${depth + 1} />
    </div>`)}
    ${pairs.length > MOST && html`<div class="pair">… and ${pairs.length - MOST} more</div>`}
  </details>`;
}

/** @param {{of: any}} props */
function Plain({ of }) {
  if (isExact(of)) return html`<span class="number">${JSON.stringify(of)}</span>`;
  const kind = of === null ? 'null' : typeof of;
  return html`<span class=${kind}><${Text} of=${kind === 'string' ? JSON.stringify(of) : of} /></span>`;
}

// -- Text that a model wrote, with its Markdown.

/** @param {{of: string}} props */
export function Markdown({ of }) {
  const text = String(of ?? '');
  const blocks = blocksOf(text.slice(0, LONGEST_MARKDOWN)).map((block, index) => html`<${Block} key=${index} block=${block} />`);
  const rest = text.slice(LONGEST_MARKDOWN);
  return html`<div class="markdown">${blocks}${rest && html`<pre dir="auto"><${Text} of=${rest} /></pre>`}</div>`;
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
  const place = hiddenTarget(span);
  switch (span.kind) {
    case 'strong':
      return html`<strong>${text}</strong>`;
    case 'emphasis':
      return html`<em>${text}</em>`;
    case 'code':
      return html`<code>${text}</code>`;
    case 'link':
      return html`<a href=${span.href} target="_blank" rel="noopener noreferrer">${text}</a>${place && html` <small>(${place})</small>`}`;
    default:
      return text;
  }
}
