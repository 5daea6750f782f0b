/** The start: who looks, and what they look at. */

import { ApiError, isSignedOut } from './api.mjs';
import { goInstead, place } from './router.mjs';
import { me, openSession } from './session.mjs';
import { Shell } from './shell.mjs';
import { effect, html, render } from './view.mjs';
import { openTickets, problem, watchTickets } from './tickets.mjs';
import { Failed, Loading } from './parts/faces.mjs';
import { InboxPage } from './pages/inbox.mjs';
import { RunPage } from './pages/run.mjs';
import { RunsPage } from './pages/runs.mjs';
import { SignInPage } from './pages/sign_in.mjs';
import { ThreadPage } from './pages/thread.mjs';
import { ThreadsPage } from './pages/threads.mjs';

/** @type {Record<string, any>} */
const LISTS = { inbox: InboxPage, threads: ThreadsPage, runs: RunsPage };
/** @type {Record<string, any>} */
const ITEMS = { threads: ThreadPage, runs: RunPage };
const NOTHING = new ApiError(404, { message: 'there is no such page' }, null);

function App() {
  if (!me.value || isSignedOut.value) return html`<${SignInPage} />`;
  return html`<${Shell}><${Page} /></${Shell}>`;
}

function Page() {
  const [name, id] = place.value.parts;
  if (!name) return html`<${Loading} />`;
  const Found = id === undefined ? LISTS[name] : ITEMS[name];
  return Found ? html`<${Found} key=${id} id=${id} />` : html`<${Failed} error=${NOTHING} isPage />`;
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
