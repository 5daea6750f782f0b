/** The keys that act on the page, and the switch that turns single keys off. */

import { areOn, switchKeys } from '../keys.mjs';
import { html } from '../view.mjs';
import { Dialog } from './dialog.mjs';

/** @type {[string[], string][]} */
const KEYS = [
  [['g i', 'g t', 'g r'], 'Inbox, Threads, Runs'],
  [['j', 'k', '↓', '↑'], 'move in a list or in the tree of a run'],
  [['←', '→', '*'], 'fold, unfold, unfold everything beneath'],
  [['1', '…', '5'], 'tabs of the inspector'],
  [['n', 'p'], 'next, previous failure of a run'],
  [['a'], 'approve: press it twice, or Enter'],
  [['e'], 'edit the arguments'],
  [['d'], 'deny: it asks for the reason, Enter sends it'],
  [['x'], 'cancel the run (it asks)'],
  [['/'], 'find in this run'],
  [['c'], 'copy the link to what you see'],
  [['Esc'], 'close, or back to the list'],
  [['?'], 'these keys'],
];

/** @param {{onClose: () => void}} props */
export function KeysHelp({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table><tbody>${KEYS.map(([keys, deed]) => html`<tr key=${deed}><td class="keys">${keys.map((key) => html`<kbd key=${key}>${key}</kbd>`)}</td><td>${deed}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${areOn.value} onChange=${(/** @type {any} */ event) => switchKeys(event.target.checked)} />
      Single keys act when no field has the focus</label>
    <form method="dialog" class="acts"><button>Close</button></form></${Dialog}>`;
}
