/**
 * Who looks at the page.
 *
 * A link's fragment holds a one-time word, which is exchanged for a token at once and taken out of
 * the address. The token lives in `sessionStorage`, which belongs to one tab and one port; an open
 * tab hands it to a new one.
 */

import { ApiError, isSignedOut, post, renewal, send, token } from './api.mjs';
import { signal } from './view.mjs';

const PLACE = 'awaken.session';
const PATIENCE = 200;
const tabs = new BroadcastChannel(PLACE);

/** The answer of `/v1/me`, or null. */
export const me = signal(/** @type {any} */ (null));

tabs.addEventListener('message', ({ data }) => {
  if (data === 'who?' && token.value) tabs.postMessage({ token: token.value });
  if (data === 'signed out') forget();
});

/** Find out who looks; `me` is null afterwards if they have to sign in. */
export async function openSession() {
  const word = new URLSearchParams(location.hash.slice(1)).get('t');
  if (word) {
    history.replaceState(null, '', location.pathname + location.search);
    await signInWith({ word }).catch(passRefusal);
  }
  if (!token.value) keep(sessionStorage.getItem(PLACE) ?? (await tokenOfAnotherTab()));
  await look().catch(passRefusal);
}

async function look(isLast = false) {
  isSignedOut.value = false;
  me.value = await (await send('GET', '/v1/me', {}, isLast)).json();
}

// A server without keys that was started again does not know our token, but lets everyone in.
renewal.renew = async () => {
  keep(null);
  return look(true).then(() => true, (error) => (passRefusal(error), false));
};

/** @param {string | null} given */
function keep(given) {
  token.value = given;
  if (given) sessionStorage.setItem(PLACE, given);
  else sessionStorage.removeItem(PLACE);
}

/** @param {string} key */
export async function signInWithKey(key) {
  token.value = key;
  try {
    await signInWith({});
  } catch (error) {
    token.value = null;
    throw error;
  }
  await look();
}

/** @param {{word?: string}} asked */
async function signInWith(asked) {
  keep((await post('/v1/session', asked)).token);
}

export async function signOut() {
  await send('DELETE', '/v1/session').catch(passRefusal);
  tabs.postMessage('signed out');
  forget();
}

function forget() {
  keep(null);
  me.value = null;
  isSignedOut.value = true;
}

/** @param {unknown} error */
function passRefusal(error) {
  if (!(error instanceof ApiError) || error.status !== 401) throw error;
}

/** @returns {Promise<string | null>} */
function tokenOfAnotherTab() {
  return new Promise((resolve) => {
    const heard = (/** @type {MessageEvent} */ { data }) => data?.token && finish(data.token);
    const finish = (/** @type {string | null} */ found) => {
      tabs.removeEventListener('message', heard);
      resolve(found);
    };
    tabs.addEventListener('message', heard);
    tabs.postMessage('who?');
    setTimeout(() => finish(null), PATIENCE);
  });
}

/** @param {string[]} roles */
export function may(...roles) {
  const mine = me.value?.roles ?? [];
  return mine.includes('admin') || roles.some((role) => mine.includes(role));
}
