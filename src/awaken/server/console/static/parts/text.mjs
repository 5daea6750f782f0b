/** Text that others wrote, shown as text. */

import { ago, coloured, exactly, left, pieces, statusOf } from '../format.mjs';
import { html, signal } from '../view.mjs';

const LONGEST = 256 * 1024;

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
export const Output = ({ of }) => html`<pre dir="auto">${coloured(String(of ?? '')).map(({ text, colour }, at) =>
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
export const Left = ({ until }) => html`<time title=${exactly(until)} dateTime=${new Date(until).toISOString()}>${left(until, now.value)}</time>`;

/** @param {{of: string}} props */
export function Shape({ of }) {
  const { shape, word } = statusOf(of);
  return html`<span class=${`shape ${of}`} role="img" aria-label=${word} title=${word}>${shape}</span>`;
}
