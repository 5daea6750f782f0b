/** The frame of every page: the places, the connection, who one is. */

import { computed, effect, html, signal } from './view.mjs';
import { may, me, signOut } from './session.mjs';
import { place } from './router.mjs';
import { openTickets } from './tickets.mjs';
import { connection } from './wire.mjs';
import { now } from './parts/text.mjs';
import { took } from './format.mjs';

const THEME = 'awaken.theme';
const PLACES = { inbox: 'Inbox', threads: 'Threads', runs: 'Runs', audit: 'Audit' };
const theme = signal(localStorage.getItem(THEME) ?? 'system');
const title = signal('');
const said = signal('');
let lastSaid = 0;

effect(() => {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  localStorage.setItem(THEME, theme.value);
});

const count = computed(() => openTickets.value.length);
effect(() => {
  const waiting = count.value ? `(${count.value}) ` : '';
  document.title = `${waiting}${title.value ? `${title.value} · ` : ''}Awaken`;
});

/** What the server shows above every page: the demo has a button that kills it. */
const Bar = signal(/** @type {any} */ (null));
effect(() => {
  if (me.value?.features.includes('kill')) import('./parts/kill.mjs').then((found) => (Bar.value = found.KillBar));
});

/** The page's part of the window's title. @param {string} text */
export const entitle = (text) => void (title.value = text);

/** Say what matters to those who cannot see it, at most one sentence in two seconds.
 * @param {string} sentence */
export function announce(sentence) {
  if (Date.now() - lastSaid < 2000) return;
  lastSaid = Date.now();
  said.value = sentence;
}

/** @param {{children: any}} props */
export function Shell({ children }) {
  const here = place.value.parts[0];
  return html`<div class="shell">
    <header class="rail">
      <a class="logo" href="/console/">awaken</a>
      <nav aria-label="Places">
        ${Object.entries(PLACES).filter(([name]) => name !== 'audit' || may()).map(([name, label]) => html`<a key=${name} href=${`/console/${name}`}
          aria-current=${name === here ? 'page' : undefined}>${label}
          ${name === 'inbox' && count.value > 0 && html`<span class="count" aria-label=${`${count.value} open`}>${count.value}</span>`}</a>`)}
      </nav>
      <${Foot} />
    </header>
    <main class=${Bar.value ? 'barred' : ''}>${Bar.value && html`<${Bar.value} />`}${children}</main>
    <div class="hidden-words" role="status" aria-live="polite">${said.value}</div>
  </div>`;
}

function Foot() {
  const { isOpen, since } = connection.value;
  const who = me.value;
  const change = (/** @type {any} */ event) => (theme.value = event.target.value);
  return html`<div class="foot">
    <span class=${`light ${isOpen ? '' : 'off'}`}><span>${isOpen ? 'connected' : `lost ${took(Math.max(0, now.value - since))} ago`}</span></span>
    <span class="who">${who.name}${' · '}${roleOf()}</span>
    <select aria-label="Theme" value=${theme.value} onChange=${change}>
      <option value="system">system</option><option value="light">light</option><option value="dark">dark</option>
    </select>
    ${who.has_session && html`<button onClick=${signOut}>Sign out</button>`}
  </div>`;
}

function roleOf() {
  if (may()) return 'admin';
  if (may('inspect')) return 'developer';
  if (may('decide')) return 'operator';
  return may('read') ? 'viewer' : 'user';
}

/** A bar above the page while the server is not heard. */
export function Reconnecting() {
  const { isOpen, since } = connection.value;
  if (isOpen || now.value - since < 1000) return null;
  return html`<div class="bar-note" role="alert">The server has not been heard for ${took(now.value - since)}. Trying again…</div>`;
}
