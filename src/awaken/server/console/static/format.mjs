/** Numbers, times and statuses, as people read them. No DOM. */

const COUNT = new Intl.NumberFormat('en');

/** @param {number | null | undefined} n */
export function tokens(n) {
  if (!n) return '';
  if (n < 10_000) return COUNT.format(n);
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)}k` : `${(n / 1_000_000).toFixed(2)}M`;
}

/** A cost that may be unknown, in whole or in part.
 * @param {number | null} cost @param {boolean} [isPartlyUnknown] */
export function money(cost, isPartlyUnknown = false) {
  if (cost === null || cost === undefined) return '—';
  const digits = cost >= 1 ? 2 : cost >= 0.01 ? 3 : 4;
  return `$${cost.toFixed(cost === 0 ? 2 : digits)}${isPartlyUnknown ? ' + ?' : ''}`;
}

/** @param {number | null | undefined} ms */
export function formatDuration(ms) {
  if (ms === null || ms === undefined) return '';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** @param {number} ms @param {number} now */
export function ago(ms, now) {
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 10) return 'now';
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}

/** How much time is left, in words. @param {number} until @param {number} now */
export function timeLeft(until, now) {
  return until <= now ? 'expired' : `${until - now < 10_000 ? 'a few seconds' : ago(now, until)} left`;
}

/** @param {number} ms */
export function exactly(ms) {
  const at = new Date(ms);
  const pad = (/** @type {number} */ n, size = 2) => String(n).padStart(size, '0');
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return `${day} ${time}.${pad(at.getMilliseconds(), 3)}`;
}

/** The end of an id, which tells two ids of the same moment apart. @param {string} id */
export const short = (id) => (id.length > 12 ? `…${id.slice(-8)}` : id);

/** The beginning of a text, on one line. @param {string} text @param {number} most */
export function beginning(text, most = 80) {
  // A text that is being written has its beginning asked for at every piece: the rest is not read.
  const line = text.slice(0, most * 4).replace(/\s+/g, ' ').trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** An answer's text without the marks of its Markdown, for one line of a list. @param {string} text */
export const plain = (text) => beginning(text.replace(/[*`]+|^\s*[#>]+\s*/gm, ''), 200);

const SHAPES = {
  running: ['▸', 'running'],
  created: ['·', 'waits to start'],
  waits: ['?', 'waits for an answer'],
  waiting: ['?', 'waits for an answer'],
  done: ['✓', 'finished'],
  succeeded: ['✓', 'succeeded'],
  failed: ['✗', 'failed'],
  denied: ['✗', 'denied'],
  expired: ['✗', 'expired'],
  cancelled: ['■', 'cancelled'],
  superseded: ['■', 'superseded'],
  stopped: ['■', 'stopped'],
  unknown: ['!', 'unknown'],
  budget: ['¤', 'asks for more budget'],
};

/** The shape and the word of a status: never a colour alone.
 * @param {string} status @returns {{shape: string, word: string}} */
export function statusOf(status) {
  const [shape, word] = SHAPES[/** @type {keyof typeof SHAPES} */ (status)] ?? ['·', status];
  return { shape, word };
}

/** The status of a run as `/v1/runs` tells it. @param {any} run */
export function runStatus(run) {
  if (run.status !== 'done') return run.status === 'waiting' ? 'waits' : run.status;
  return endStatus(run.termination);
}

/** @param {{type?: string} | null} termination */
export function endStatus(termination) {
  switch (termination?.type) {
    case 'error':
    case 'blocked':
      return 'failed';
    case 'cancelled':
      return 'cancelled';
    case 'stopped':
      return 'stopped';
    case 'suspended':
      return 'waits';
    default:
      return 'done';
  }
}

/** @param {any} termination */
export function endReason(termination) {
  const value = termination?.value;
  return typeof value === 'string' ? value : value ? [value.code, value.detail].filter(Boolean).join(': ') : '';
}

// Control characters but for tab and line feed, and characters that change the direction of text.
// The joiner between two pictures makes one picture of them, and is none of these.
const STRANGE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d|\u200d(?!\p{Extended_Pictographic})/u;
const EACH = new RegExp(`(${STRANGE.source})`, 'u');

const COLOUR = /\u001b\[([\d;]*)m/;

/** A tool's output in pieces of one colour each, as a terminal shows them: `colour` is 0 to 7.
 * @param {string} text @returns {{text: string, colour: number | null}[]} */
export function splitColours(text) {
  const parts = text.split(COLOUR);
  /** @type {number | null} */
  let colour = null;
  return parts.flatMap((part, at) => {
    if (at % 2 === 0) return part ? [{ text: part, colour }] : [];
    for (const code of part.split(';').map(Number)) {
      if (code === 0 || code === 39) colour = null;
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = code % 10;
    }
    return [];
  });
}

/** Whether a text has characters that would hide or turn it. @param {string} text */
export const hasMarks = (text) => STRANGE.test(text);

/** A text in pieces: what can be shown, and the characters that would hide or turn it.
 * @param {string} text @returns {{text?: string, mark?: string}[]} */
export function pieces(text) {
  if (!STRANGE.test(text)) return [{ text }];
  return text.split(EACH).filter(Boolean).map((piece) =>
    STRANGE.test(piece) ? { mark: `U+${piece.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}` } : { text: piece },
  );
}
