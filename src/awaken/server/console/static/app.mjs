/** The start: who looks, and what they look at. */

import { ApiError, isSignedOut } from './api.mjs';
import { goInstead, place } from './router.mjs';
import { me, openSession } from './session.mjs';
import { Shell } from './shell.mjs';
import { effect, html, render } from './view.mjs';
import { openTickets, problem, watchTickets } from './tickets.mjs';
import { Failed, Loaded, Loading } from './parts/faces.mjs';

// A page is loaded when it is first opened.
/** @type {Record<string, () => Promise<any>>} */
const LISTS = {
  inbox: async () => (await import('./pages/inbox.mjs')).InboxPage,
  threads: async () => (await import('./pages/threads.mjs')).ThreadsPage,
  runs: async () => (await import('./pages/runs.mjs')).RunsPage,
  audit: async () => (await import('./pages/audit.mjs')).AuditPage,
};
/** @type {Record<string, () => Promise<any>>} */
const ITEMS = {
  threads: async () => (await import('./pages/thread.mjs')).ThreadPage,
  runs: async () => (await import('./pages/run.mjs')).RunPage,
};
const signIn = async () => (await import('./pages/sign_in.mjs')).SignInPage;
const NOTHING = new ApiError(404, { message: 'there is no such page' }, null);

function App() {
  if (!me.value || isSignedOut.value) return html`<${Loaded} load=${signIn} />`;
  return html`<${Shell}><${Page} /></${Shell}>`;
}

function Page() {
  const [name, id] = place.value.parts;
  if (!name) return html`<${Loading} />`;
  const load = id === undefined ? LISTS[name] : ITEMS[name];
  return load ? html`<${Loaded} key=${`${name}/${id}`} load=${load} id=${id} />` : html`<${Failed} error=${NOTHING} isPage />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));

async function start() {
  render(html`<${Loading} />`, root);
  try {
    await openSession();
  } catch (error) {
    render(html`<${Failed} error=${error} onRetry=${start} isPage />`, root);
    return;
  }
  render(html`<${App} />`, root);
}

// The first page: what waits for an answer, else the conversations.
effect(() => {
  const isHome = place.value.parts.length === 0 && me.value !== null;
  if (isHome && problem.value !== undefined) goInstead(`/console/${openTickets.peek().length ? 'inbox' : 'threads'}`);
});

/** @type {AbortController | null} */
let watching = null;
effect(() => {
  const isKnown = me.value !== null && !isSignedOut.value;
  if (isKnown && !watching) watchTickets((watching = new AbortController()).signal);
  if (!isKnown) {
    watching?.abort();
    watching = null;
  }
});

start();
