/** What a part of the page shows while it loads, when it is empty, and when loading failed. */

import { ApiError } from '../api.mjs';
import { addressOf } from '../router.mjs';
import { html, useEffect, useRef, useState } from '../view.mjs';
import { connection } from '../wire.mjs';
import { Text } from './text.mjs';

export const Loading = () => html`<div class="lines" role="status" aria-busy="true" aria-label="Loading">
  ${[1, 2, 3, 4, 5, 6].map((line) => html`<span key=${line} />`)}
</div>`;

/** @param {{title: string, children?: any}} props */
export const Empty = ({ title, children }) => html`<div class="face">
  <h2>${title}</h2>${children}
</div>`;

/** How many rows of a list the server cannot read, if there are some. @param {{rows?: any[]}} props */
export const Unreadable = ({ rows = [] }) => rows.length > 0 && html`<p class="unreadable" role="status">
  ${rows.length === 1 ? '1 row' : `${rows.length} rows`} of this list cannot be read:
  <code>awaken db check</code> says what is wrong in ${rows.length === 1 ? 'it' : 'them'}.</p>`;

/** @param {{error: any, onRetry?: () => void, isPage?: boolean}} props */
export function Failed({ error, onRetry, isPage = false }) {
  const isGone = error.status === 404;
  const title = isGone ? 'There is nothing here' : error.status === 403 ? 'This needs another role' : 'This could not be loaded';
  return html`<div class="face failed" role="alert">
    ${isPage ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}
    <p><${Text} of=${error.message} /></p>
    ${error.hint && html`<p><${Text} of=${error.hint} /></p>`}
    ${error.requestId && html`<p><small>request ${error.requestId}</small></p>`}
    <div class="acts">
      ${onRetry && !isGone && html`<button onClick=${onRetry}>Try again</button>`}
      ${isGone && html`<a class="button" href=${addressOf(['threads'])}>All threads</a>`}
    </div>
  </div>`;
}

/**
 * The result of `load`, which is called again whenever one of `needs` changes.
 * @template T
 * @param {() => Promise<T>} load @param {any[]} needs
 * @returns {{value: T | undefined, error: any, again: () => void}}
 */
export function useLoaded(load, needs) {
  const [state, setState] = useState(/** @type {{value?: any, error?: any}} */ ({}));
  const [count, setCount] = useState(0);
  const known = useRef(needs);
  useEffect(() => {
    let isWanted = true;
    if (known.current.some((need, index) => need !== needs[index])) setState({});
    known.current = needs;
    load().then(
      (value) => isWanted && setState({ value }),
      (error) => isWanted && setState({ error }),
    );
    return () => void (isWanted = false);
  }, [...needs, count]);
  const again = () => setCount((n) => n + 1);
  const isHeard = connection.value.isOpen;
  // What failed for want of a server is asked for again when it is back.
  useEffect(() => void (isHeard && state.error?.status === 0 && again()), [isHeard]);
  return { value: state.value, error: state.error, again };
}

const reload = () => location.reload();

/** A part whose file is loaded when it is first shown; it gets the other properties. Browsers do not
 * ask again for a file that failed: the page is loaded anew, a whole page by itself when the server is
 * back. @param {{load: () => Promise<any>, isPage?: boolean, [name: string]: any}} props */
export function Loaded({ load, isPage, ...others }) {
  const { value: Found, error } = useLoaded(load, [load]);
  const wasLost = useRef(false);
  const isHeard = connection.value.isOpen;
  useEffect(() => {
    if (error && isPage && isHeard && wasLost.current) reload();
    wasLost.current = !isHeard;
  }, [isHeard]);
  if (error) return html`<${Failed} error=${new ApiError(0, {}, null)} onRetry=${reload} isPage />`;
  return Found ? html`<${Found} ...${others} />` : html`<h1 class="hidden-words">Loading</h1><${Loading} />`;
}

// -- A question in front of the page. The focus goes into it, and back to where it was.

/** @param {{title: string, onClose: () => void, children: any}} props */
export function Dialog({ title, onClose, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current?.showModal();
    return () => before?.focus();
  }, []);
  // Escape takes the dialog off the page at once. Closed by the browser, it would report that later, and a key that opens it again
  // in between would be lost.
  const onCancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${box} onClose=${onClose} onCancel=${onCancel} aria-labelledby="dialog-title">
    <h1 id="dialog-title">${title}</h1>${children}</dialog>`;
}
