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
// A model wrote the text: each expression reads a line once. `s`: the rest of a line always matches.
const HEADING = /^(#{1,6})\s+(.*)$/s;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/s;
const QUOTE = /^\s*>\s?(.*)$/s;
const RULE = /^:?-{3,}:?$/;
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
      const last = nextLine(source, at + 1, (other) => FENCE.test(other));
      found.push({ kind: 'code', text: source.slice(at + 1, last).join('\n') });
      at = last;
    } else if (isHead(line, source[at + 1])) {
      flush();
      const last = nextLine(source, at + 2, (other) => !other.includes('|'));
      const body = source.slice(at + 2, Math.min(last, at + 2 + MOST_ROWS));
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

/** The first line from `start` on that is wanted, or the end.
 * @param {string[]} source @param {number} start @param {(line: string) => boolean} isWanted */
function nextLine(source, start, isWanted) {
  for (let at = start; at < source.length; at += 1) if (isWanted(source[at])) return at;
  return source.length;
}

/** Whether a line is the head of a table: the next one rules it off.
 * @param {string} line @param {string | undefined} next */
const isHead = (line, next) => line.includes('|') && next !== undefined && next.includes('|') && textsOf(next).every((cell) => RULE.test(cell));

/** @param {string} line @returns {string[]} */
const textsOf = (line) => line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => cell.trim());

/** @param {string} line @returns {Span[][]} */
const cellsOf = (line) => textsOf(line).map(spansOf);

/** The block that a line is by itself. @param {string} line @returns {Block | undefined} */
function blockOf(line) {
  const heading = HEADING.exec(line);
  if (heading) return { kind: 'heading', level: heading[1].length, spans: spansOf(heading[2]) };
  const item = ITEM.exec(line);
  if (item) return { kind: 'item', level: Math.min(4, Math.floor(item[1].length / 2)), mark: /\d/.test(item[2]) ? item[2] : '•', spans: spansOf(item[3]) };
  const quote = QUOTE.exec(line);
  return quote ? { kind: 'quote', spans: spansOf(quote[1]) } : undefined;
}

const SPANS = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|!?\[([^[\]\n]*)\]\(([^()\s]+)\)/g;

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

/** Where a link leads, if its text does not say so: it does if it is the address, without a name
 * before `@`. Empty otherwise. @param {Span} span @returns {string} */
export function hiddenTarget({ text, href }) {
  const place = hostOf(href ?? '');
  const named = text === href ? text.replace(SAFE, '').split(/[/?#\\]/)[0] : '';
  return named === place ? '' : place;
}

/** @param {string} href */
function hostOf(href) {
  try {
    const { host, pathname } = new URL(href);
    return host || pathname;
  } catch {
    return href;
  }
}
