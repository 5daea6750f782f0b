/** A question in front of the page. The focus goes into it, and back to where it was. */

import { html, useEffect, useRef } from '../view.mjs';

/** @param {{title: string, onClose: () => void, children: any}} props */
export function Dialog({ title, onClose, children }) {
  const box = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    box.current?.showModal();
    return () => before?.focus();
  }, []);
  return html`<dialog ref=${box} onClose=${onClose} aria-labelledby="dialog-title">
    <h1 id="dialog-title">${title}</h1>${children}</dialog>`;
}
