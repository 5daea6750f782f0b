/** The start: it opens the session and the page of the address. */

import { answerOffer, ApiError, isSignedOut, me, offer, openSession, signInWithKey } from './api.mjs';
import { addressOf, replaceAddress, place } from './router.mjs';
import { Shell } from './shell.mjs';
import { effect, html, render, useState } from './view.mjs';
import { openTickets, problem, watchTickets } from './wire.mjs';
import { Failed, Loaded, Loading } from './parts/faces.mjs';
import { Text } from './parts/text.mjs';

// A page is loaded when it is first opened.
/** @type {Record<string, () => Promise<any>>} */
const LISTS = {
  inbox: async () => (await import('./pages/inbox.mjs')).InboxPage,
  threads: async () => (await import('./pages/lists.mjs')).ThreadsPage,
  runs: async () => (await import('./pages/lists.mjs')).RunsPage,
  audit: async () => (await import('./pages/lists.mjs')).AuditPage,
};
/** @type {Record<string, () => Promise<any>>} */
const ITEMS = {
  threads: async () => (await import('./pages/thread.mjs')).ThreadPage,
  runs: async () => (await import('./pages/run.mjs')).RunPage,
};
const NOTHING = new ApiError(404, { message: 'there is no such page' }, null);

function App() {
  if (offer.value) return html`<${OfferPage} />`;
  if (!me.value || isSignedOut.value) return html`<${SignInPage} />`;
  return html`<${Shell}><${Page} /></${Shell}>`;
}

/** @param {string[]} parts */
const loaderOf = ([name, id]) => (id === undefined ? LISTS[name] : ITEMS[name]);

function Page() {
  const [name, id] = place.value.parts;
  if (!name) return html`<${Loading} />`;
  const load = loaderOf(place.value.parts);
  return load ? html`<${Loaded} key=${`${name}/${id}`} load=${load} id=${id} isPage />` : html`<${Failed} error=${NOTHING} isPage />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));

async function start() {
  render(html`<${Loading} />`, root);
  // The page's files come while the session is opened.
  loaderOf(place.value.parts)?.().catch(() => {});
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
  if (isHome && problem.value !== undefined) replaceAddress(addressOf([openTickets.peek().length ? 'inbox' : 'threads']));
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

// -- The page after a link that would replace the session of another principal.

function OfferPage() {
  const { theirs } = /** @type {any} */ (offer.value);
  return html`<main class="sign-in">
    <h1>awaken</h1>
    <p>This link signs you in as <b><${Text} of=${nameOf(theirs)} /></b>. You are signed in as <b><${Text} of=${nameOf(me.value)} /></b>.</p>
    <p class="sub">Whoever made the link sees what you do with it.</p>
    <form method="dialog" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <button class="main" onClick=${() => answerOffer(false)}>Stay as I am</button>
      <button onClick=${() => answerOffer(true)}>Use the link</button>
    </form>
  </main>`;
}

/** @param {{name: string, scope: string}} who */
const nameOf = ({ name, scope }) => (scope ? `${name} of ${scope}` : name);

// -- The page for signing in with a key.

function SignInPage() {
  const [key, setKey] = useState('');
  const [wrong, setWrong] = useState('');
  const signIn = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setWrong('');
    await signInWithKey(key.trim()).catch((error) => setWrong(error.message));
  };
  return html`<main class="sign-in">
    <h1>awaken</h1>
    <p class="sub">Sign in with a key of this server, or open the link that <code>awaken serve</code> has printed.</p>
    <form onSubmit=${signIn}>
      <label>Key<input type="password" autocomplete="off" value=${key} placeholder="awk_…"
        onInput=${(/** @type {any} */ event) => setKey(event.target.value)} /></label>
      ${wrong && html`<p class="wrong" role="alert"><${Text} of=${wrong} /></p>`}
      <button class="main" disabled=${!key.trim()}>Sign in</button>
    </form>
  </main>`;
}
