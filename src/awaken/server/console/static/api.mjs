/** Requests to the server. */

import { parse } from './json.mjs';
import { signal } from './view.mjs';

/** The path that the server answers under: empty, or the prefix that an application or a proxy gives
 * it. This file is `PREFIX/console/static/BUILD/api.mjs`. */
export const ROOT = new URL('../../..', import.meta.url).pathname.replace(/\/$/, '');

/** The token of the session, or null. It is stored here and in `sessionStorage` alone. */
const token = signal(/** @type {string | null} */ (null));
/** Whether the server has refused the session, so that the user has to sign in. */
export const isSignedOut = signal(false);

/** A request that was refused, or did not reach the server (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, hint?: string, details?: any}} body
   * @param {string | null} requestId
   */
  constructor(status, body, requestId) {
    super(body.message ?? (status ? `the server answered ${status}` : 'the server cannot be reached'));
    this.status = status;
    this.code = body.code ?? '';
    this.hint = body.hint ?? '';
    this.details = body.details ?? {};
    this.requestId = requestId;
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{query?: Record<string, any>, body?: any, headers?: Record<string, string>,
 *   signal?: AbortSignal}} [more]
 * @param {boolean} [isLast] whether the request is not made again with another token
 * @returns {Promise<Response>}
 */
export async function send(method, path, more = {}, isLast = false) {
  const headers = { ...more.headers };
  const used = token.value;
  if (used) headers.authorization = `Bearer ${used}`;
  if (more.body !== undefined) headers['content-type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(ROOT + path + queryText(more.query), {
      method,
      headers,
      body: more.body === undefined ? undefined : JSON.stringify(more.body),
      credentials: 'omit',
      signal: more.signal,
    });
  } catch (error) {
    if (more.signal?.aborted) throw error;
    throw new ApiError(0, {}, null);
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    const isRenewed = !isLast && used !== null && (token.value !== used || (await renew()));
    if (isRenewed) return send(method, path, more, true);
    isSignedOut.value = true;
  }
  throw new ApiError(answer.status, body.error ?? {}, answer.headers.get('x-request-id'));
}

/** @param {string} path @param {Record<string, any>} [query] @returns {Promise<any>} */
export async function get(path, query) {
  return parse(await (await send('GET', path, { query })).text());
}

/** @param {string} path @param {any} body @param {Record<string, any>} [query] @returns {Promise<any>} */
export async function post(path, body, query) {
  return parse(await (await send('POST', path, { body, query })).text());
}

/** @param {Record<string, any>} [query] */
function queryText(query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? '?' + new URLSearchParams(given.map(([k, v]) => [k, String(v)])) : '';
}

/** A part of a path that holds an id. @param {string} id */
export const part = (id) => encodeURIComponent(id);

// -- The session. A link's fragment holds a one-time word, which is exchanged for a token
// at once and taken out of the address. The token lives in `sessionStorage`, which belongs to
// one tab and one port, under the path of this server; an open tab hands it to a new one.

const PLACE = `awaken.session${ROOT}`;
const PATIENCE = 200;
const tabs = new BroadcastChannel(PLACE);

/** The answer of `/v1/me`, or null. */
export const me = signal(/** @type {any} */ (null));

tabs.addEventListener('message', ({ data }) => {
  if (data === 'who?' && token.value) tabs.postMessage({ token: token.value });
  if (data === 'signed out') forget();
});

/** The session of a link that was opened with another session: `theirs` is its `/v1/me`, or null. */
export const offer = signal(/** @type {{theirs: any, token: string} | null} */ (null));

/** Open the session; `me` is null afterwards if the user has to sign in. */
export async function openSession() {
  const word = new URLSearchParams(location.hash.slice(1)).get('t');
  if (word) history.replaceState(null, '', location.pathname + location.search);
  // Requested at once, without the token that the tab may have.
  const begun = word ? begin(word) : null;
  if (!token.value) keep(sessionStorage.getItem(PLACE) ?? (await tokenOfAnotherTab()));
  if (token.value) await look().catch(passRefusal);
  const theirs = await begun;
  if (me.value) isSignedOut.value = false; // a link that was used before ends no session
  if (theirs) await takeSession(theirs, me.value);
  if (!me.value) await look().catch(passRefusal);
}

/** The token of a link's session, or null if the link is not good. @param {string} word @returns {Promise<string | null>} */
const begin = (word) => post('/v1/session', { word }).then(({ token: made }) => made, (error) => (passRefusal(error), null));

/** Take the session of a link. Any person may have made it: a session of another principal is not replaced
 * unless the viewer says so. @param {string} offered @param {any} mine */
async function takeSession(offered, mine) {
  const before = token.value;
  token.value = offered;
  const theirs = await (await send('GET', '/v1/me', {}, true)).json();
  isSignedOut.value = false;
  if (mine === null || (mine.name === theirs.name && mine.scope === theirs.scope)) {
    keep(offered);
    me.value = theirs;
  } else {
    token.value = before;
    offer.value = { theirs, token: offered };
  }
}

/** Take the session that a link offers, or end it. @param {boolean} isTaken */
export async function answerOffer(isTaken) {
  const offered = offer.value;
  if (!offered) return;
  const before = token.value;
  token.value = offered.token;
  if (isTaken) {
    keep(offered.token);
    me.value = offered.theirs;
  } else {
    await send('DELETE', '/v1/session', {}, true).catch(passRefusal);
    token.value = before;
  }
  offer.value = null;
}

async function look(isLast = false) {
  isSignedOut.value = false;
  me.value = await (await send('GET', '/v1/me', {}, isLast)).json();
}

// A server without keys that was started again does not know our token, but accepts every request.
async function renew() {
  keep(null);
  return look(true).then(() => true, (error) => (passRefusal(error), false));
}

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
    keep((await post('/v1/session', {})).token);
  } catch (error) {
    token.value = null;
    throw error;
  }
  await look();
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
    const onMessage = (/** @type {MessageEvent} */ { data }) => data?.token && finish(data.token);
    const finish = (/** @type {string | null} */ found) => {
      tabs.removeEventListener('message', onMessage);
      resolve(found);
    };
    tabs.addEventListener('message', onMessage);
    tabs.postMessage('who?');
    setTimeout(() => finish(null), PATIENCE);
  });
}

/** @param {string[]} roles */
export function may(...roles) {
  const mine = me.value?.roles ?? [];
  return mine.includes('admin') || roles.some((role) => mine.includes(role));
}
