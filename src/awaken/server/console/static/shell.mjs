/** The frame of every page: the places, the connection, who one is. */

import { may, me, signOut } from './api.mjs';
import { took } from './format.mjs';
import { go, place, useKeys } from './router.mjs';
import { computed, effect, html, signal, useState } from './view.mjs';
import { connection, openTickets } from './wire.mjs';
import { Loaded } from './parts/faces.mjs';
import { now } from './parts/text.mjs';

const THEME = 'awaken.theme';
const PLACES = { inbox: 'Inbox', threads: 'Threads', runs: 'Runs', audit: 'Audit' };
const theme = signal(localStorage.getItem(THEME) ?? 'system');
const title = signal('');
const said = signal('');
const PAUSE = 2000;
let lastSaid = 0;
/** @type {number | undefined} */
let saying;

const DENSITY = 'awaken.density';
/** Whether rows are high. */
export const isRoomy = signal(localStorage.getItem(DENSITY) === 'roomy');

effect(() => {
  const density = isRoomy.value ? 'roomy' : 'dense';
  document.documentElement.dataset.density = density;
  localStorage.setItem(DENSITY, density);
});
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
  if (me.value?.features.includes('kill')) import('./parts/dialogs.mjs').then((found) => (Bar.value = found.KillBar));
});

/** The page's part of the window's title. @param {string} text */
export const entitle = (text) => void (title.value = text);

/** Say what matters to those who cannot see it, at most one sentence in two seconds: of several, the
 * last. @param {string} sentence */
export function announce(sentence) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    lastSaid = Date.now();
    said.value = sentence;
  }, Math.max(0, lastSaid + PAUSE - Date.now()));
}

const help = async () => (await import('./parts/dialogs.mjs')).KeysHelp;

/** The keys of every page. @param {() => void} showHelp */
function useShellKeys(showHelp) {
  useKeys({
    'g i': () => go('/console/inbox'),
    'g t': () => go('/console/threads'),
    'g r': () => go('/console/runs'),
    '?': showHelp,
    '/': () => /** @type {HTMLElement | null} */ (document.querySelector('input[type=search]'))?.focus(),
    c: () => navigator.clipboard?.writeText(location.href).then(() => announce('the link was copied'), () => {}),
    Escape: () => place.value.parts.length > 1 && go(`/console/${place.value.parts[0]}`),
  });
}

/** @param {{children: any}} props */
export function Shell({ children }) {
  const here = place.value.parts[0];
  const [isHelp, setIsHelp] = useState(false);
  useShellKeys(() => setIsHelp(true));
  return html`<div class="shell">
    <header class="rail">
      <a class="logo" href="/console/">awaken</a>
      <nav aria-label="Places">
        ${Object.entries(PLACES).filter(([name]) => name !== 'audit' || may()).map(([name, label]) => html`<a key=${name} href=${`/console/${name}`}
          aria-current=${name === here ? 'page' : undefined}>${label}
          ${name === 'inbox' && count.value > 0 && html`<span class="count" aria-label=${`${count.value} open`}>${count.value}</span>`}</a>`)}
      </nav>
      <${Foot} onHelp=${() => setIsHelp(true)} />
    </header>
    <main class=${Bar.value ? 'barred' : ''}>${Bar.value && html`<${Bar.value} />`}${children}</main>
    <div class="hidden-words" role="status" aria-live="polite">${said.value}</div>
    ${isHelp && html`<${Loaded} load=${help} onClose=${() => setIsHelp(false)} />`}
  </div>`;
}

/** @param {{onHelp: () => void}} props */
function Foot({ onHelp }) {
  const { isOpen, since } = connection.value;
  const who = me.value;
  const change = (/** @type {any} */ event) => (theme.value = event.target.value);
  return html`<div class="foot">
    <span class=${`light ${isOpen ? '' : 'off'}`}><span>${isOpen ? 'connected' : `lost ${took(Math.max(0, now.value - since))} ago`}</span></span>
    <span class="who">${who.name}${' · '}${roleOf()}</span>
    <select aria-label="Theme" value=${theme.value} onChange=${change}>
      <option value="system">system</option><option value="light">light</option><option value="dark">dark</option>
    </select>
    <button class="quiet" onClick=${onHelp}>Keys <kbd>?</kbd></button>
    ${who.has_session && html`<button class="quiet" onClick=${signOut}>Sign out</button>`}
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
