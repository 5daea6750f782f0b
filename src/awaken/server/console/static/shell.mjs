/** The frame of every page: navigation, connection, user. */

import { may, me, signOut } from './api.mjs';
import { formatDuration } from './format.mjs';
import { addressOf, go, place, useKeys } from './router.mjs';
import { computed, effect, html, signal, useEffect, useState } from './view.mjs';
import { connection, openTickets } from './wire.mjs';
import { Loaded } from './parts/faces.mjs';
import { now } from './parts/text.mjs';

const THEME = 'awaken.theme';
const PLACES = { inbox: 'Inbox', threads: 'Threads', runs: 'Runs', audit: 'Audit' };
const theme = signal(localStorage.getItem(THEME) ?? 'system');
const title = signal('');
const announcement = signal('');
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

/** Announce a sentence to screen readers, at most one sentence in two seconds: of several, the
 * last. @param {string} sentence */
export function announce(sentence) {
  clearTimeout(saying);
  saying = setTimeout(() => {
    lastSaid = Date.now();
    announcement.value = sentence;
  }, Math.max(0, lastSaid + PAUSE - Date.now()));
}

const help = async () => (await import('./parts/dialogs.mjs')).KeysHelp;
const palette = async () => (await import('./parts/dialogs.mjs')).Palette;

const THEMES = ['system', 'light', 'dark'];
const DENSITIES = ['dense', 'roomy'];

const copyLink = () => navigator.clipboard?.writeText(location.href).then(() => announce('the link was copied'), () => {});
const places = () => Object.entries(PLACES).filter(([name]) => name !== 'audit' || may());

/** What can be done by name, from every page. @param {(dialog: string) => void} show */
function commands(show) {
  /** @type {[string, () => void][]} */
  const found = places().map(([name, label]) => [`Go to ${label}`, () => go(addressOf([name]))]);
  if (may('invoke')) found.push(['New thread', () => go(addressOf(['threads'], { new: '1' }))]);
  found.push(['Answers that were given', () => go(addressOf(['inbox'], { show: 'history' }))]);
  for (const name of THEMES) found.push([`Theme: ${name}`, () => (theme.value = name)]);
  for (const name of DENSITIES) found.push([`Density: ${name}`, () => (isRoomy.value = name === 'roomy')]);
  found.push(['Copy the link to this page', copyLink], ['Keys', () => show('keys')]);
  if (me.value.has_session) found.push(['Sign out', signOut]);
  return found;
}

/** The keys of every page. @param {(dialog: string) => void} show */
function useShellKeys(show) {
  useKeys({
    'g i': () => go(addressOf(['inbox'])),
    'g t': () => go(addressOf(['threads'])),
    'g r': () => go(addressOf(['runs'])),
    '?': () => show('keys'),
    '/': () => {
      const field = /** @type {HTMLElement | null} */ (document.querySelector('input[type=search]'));
      if (field) field.focus();
      else show('palette');
    },
    c: copyLink,
    Escape: () => place.value.parts.length > 1 && go(addressOf([place.value.parts[0]])),
  });
  useEffect(() => {
    const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      if (!document.querySelector('dialog[open]')) show('palette');
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);
}

/** @param {{children: any}} props */
export function Shell({ children }) {
  const here = place.value.parts[0];
  const [dialog, show] = useState('');
  const close = () => show('');
  useShellKeys(show);
  return html`<div class="shell">
    <header class="rail">
      <a class="logo" href=${addressOf([])}>awaken</a>
      <nav aria-label="Places">
        ${places().map(([name, label]) => html`<a key=${name} href=${addressOf([name])}
          aria-current=${name === here ? 'page' : undefined}>${label}
          ${name === 'inbox' && count.value > 0 && html`<span class="count" aria-label=${`${count.value} open`}>${count.value}</span>`}</a>`)}
      </nav>
      <${Foot} onShow=${show} />
    </header>
    <main class=${Bar.value ? 'barred' : ''}>${Bar.value && html`<${Bar.value} />`}${children}</main>
    <div class="hidden-words" role="status" aria-live="polite">${announcement.value}</div>
    ${dialog === 'keys' && html`<${Loaded} load=${help} onClose=${close} />`}
    ${dialog === 'palette' && html`<${Loaded} load=${palette} commands=${commands(show)} onClose=${close} />`}
  </div>`;
}

/** @param {{onShow: (dialog: string) => void}} props */
function Foot({ onShow }) {
  const { isOpen, since } = connection.value;
  const who = me.value;
  return html`<div class="foot">
    <span class=${`light ${isOpen ? '' : 'off'}`}><span>${isOpen ? 'connected' : `lost ${formatDuration(Math.max(0, now.value - since))} ago`}</span></span>
    <span class="who">${who.name}${' · '}${roleOf()}</span>
    <${Choice} name="Theme" of="theme" all=${THEMES} value=${theme.value} onChoose=${(/** @type {string} */ chosen) => (theme.value = chosen)} />
    <${Choice} name="Density" of="rows" all=${DENSITIES} value=${isRoomy.value ? 'roomy' : 'dense'} onChoose=${(/** @type {string} */ chosen) => (isRoomy.value = chosen === 'roomy')} />
    <button class="quiet" onClick=${() => onShow('palette')}>Find <kbd>Ctrl K</kbd></button>
    <button class="quiet" onClick=${() => onShow('keys')}>Keys <kbd>?</kbd></button>
    ${who.has_session && html`<button class="quiet" onClick=${signOut}>Sign out</button>`}
  </div>`;
}

/** @param {{name: string, of: string, all: string[], value: string, onChoose: (chosen: string) => void}} props */
const Choice = ({ name, of, all, value, onChoose }) => html`<select aria-label=${name} value=${value}
  onChange=${(/** @type {any} */ event) => onChoose(event.target.value)}>
  ${all.map((one) => html`<option key=${one} value=${one}>${one} ${of}</option>`)}</select>`;

function roleOf() {
  if (may()) return 'admin';
  if (may('inspect')) return 'developer';
  if (may('decide')) return 'operator';
  return may('read') ? 'viewer' : 'user';
}

/** A bar above the page while there is no connection to the server. */
export function Reconnecting() {
  const { isOpen, since } = connection.value;
  if (isOpen || now.value - since < 1000) return null;
  return html`<div class="bar-note" role="alert">The server has not been heard for ${formatDuration(now.value - since)}. Trying again…</div>`;
}
