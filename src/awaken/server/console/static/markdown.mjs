/**
 * Markdown → nodes of a fixed list. No DOM, no HTML: what is not Markdown stays text.
 *
 * A block is `{kind: 'paragraph' | 'heading' | 'quote' | 'item' | 'code' | 'table', …}`, a span
 * `{kind: 'text' | 'strong' | 'emphasis' | 'code' | 'link', text, href?}`.
 */

/** @typedef {{kind: string, text: string, href?: string}} Span */
/** @typedef {{kind: string, text?: string, level?: number, mark?: string, spans?: Span[],
 *   rows?: Span[][][]}} Block A table's first row is its head. */

const FENCE = /^\s*(```|~~~)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^\s*>\s?(.*)$/;
const RULE = /^\s*\|?\s*:?-{3,}:?\s*(\|\s*:?-{3,}:?\s*)*\|?\s*$/;
const MOST_ROWS = 2000;
const SAFE = /^(https?:\/\/|mailto:)/i;

/** @param {string} text @returns {Block[]} */
export function blocksOf(text) {
  /** @type {Block[]} */
  const found = [];
  /** @type {string[]} */
  let lines = [];
  const flush = () => {
    if (lines.length) found.push({ kind: 'paragraph', spans: spansOf(lines.join('\n')) });
    lines = [];
  };
  const source = text.split('\n');
  for (let at = 0; at < source.length; at += 1) {
    const line = source[at];
    const block = FENCE.test(line) ? null : blockOf(line);
    if (block === null) {
      flush();
      const end = source.findIndex((other, index) => index > at && FENCE.test(other));
      const last = end < 0 ? source.length : end;
      found.push({ kind: 'code', text: source.slice(at + 1, last).join('\n') });
      at = last;
    } else if (isHead(line, source[at + 1])) {
      flush();
      const end = source.findIndex((other, index) => index > at + 1 && !other.includes('|'));
      const last = end < 0 ? source.length : end;
      const body = source.slice(at + 2, last).slice(0, MOST_ROWS);
      found.push({ kind: 'table', rows: [line, ...body].map(cellsOf) });
      at = last - 1;
    } else if (block) {
      flush();
      found.push(block);
    } else if (line.trim()) lines.push(line);
    else flush();
  }
  flush();
  return found;
}

/** Whether a line is the head of a table: the next one rules it off.
 * @param {string} line @param {string | undefined} next */
const isHead = (line, next) => line.includes('|') && next !== undefined && next.includes('|') && RULE.test(next);

/** @param {string} line @returns {Span[][]} */
const cellsOf = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => spansOf(cell.trim()));

/** The block that a line is by itself. @param {string} line @returns {Block | undefined} */
function blockOf(line) {
  const heading = HEADING.exec(line);
  if (heading) return { kind: 'heading', level: heading[1].length, spans: spansOf(heading[2]) };
  const item = ITEM.exec(line);
  if (item) return { kind: 'item', level: Math.min(4, Math.floor(item[1].length / 2)), mark: /\d/.test(item[2]) ? item[2] : '•', spans: spansOf(item[3]) };
  const quote = QUOTE.exec(line);
  return quote ? { kind: 'quote', spans: spansOf(quote[1]) } : undefined;
}

const SPANS = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|!?\[([^\]\n]*)\]\(([^()\s]+)\)/g;

/** @param {string} text @returns {Span[]} */
export function spansOf(text) {
  /** @type {Span[]} */
  const found = [];
  let last = 0;
  for (const match of text.matchAll(SPANS)) {
    if (match.index > last) found.push({ kind: 'text', text: text.slice(last, match.index) });
    found.push(spanOf(match));
    last = match.index + match[0].length;
  }
  if (last < text.length) found.push({ kind: 'text', text: text.slice(last) });
  return found;
}

/** Links lead to pages and mailboxes alone, and show where; others stay text, and so do pictures,
 * which would be fetched from elsewhere. @param {RegExpMatchArray} match @returns {Span} */
function spanOf([whole, code, strong, emphasis, label, href]) {
  if (code !== undefined) return { kind: 'code', text: code };
  if (strong !== undefined) return { kind: 'strong', text: strong };
  if (emphasis !== undefined) return { kind: 'emphasis', text: emphasis };
  if (!SAFE.test(href) || whole.startsWith('!')) return { kind: 'text', text: whole };
  return { kind: 'link', text: label || href, href };
}
