/** Requests to the server. */

import { parse } from './fields.mjs';
import { signal } from './view.mjs';

/** The token of the session, or null. It is kept here and in `sessionStorage` alone. */
export const token = signal(/** @type {string | null} */ (null));
/** Whether the server has refused to know us, so that one has to sign in. */
export const isSignedOut = signal(false);

/** How to go on when the server does not know our token any more; returns whether there is a way. */
export const renewal = { renew: async () => false };

/** A request that was refused, or did not reach the server (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code?: string, message?: string, hint?: string, details?: any}} said
   * @param {string | null} requestId
   */
  constructor(status, said, requestId) {
    super(said.message ?? `the server answered ${status}`);
    this.status = status;
    this.code = said.code ?? '';
    this.hint = said.hint ?? '';
    this.details = said.details ?? {};
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
    answer = await fetch(path + queryText(more.query), {
      method,
      headers,
      body: more.body === undefined ? undefined : JSON.stringify(more.body),
      credentials: 'omit',
      signal: more.signal,
    });
  } catch (error) {
    if (more.signal?.aborted) throw error;
    throw new ApiError(0, { message: 'the server cannot be reached' }, null);
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401) {
    const isRenewed = !isLast && used !== null && (token.value !== used || (await renewal.renew()));
    if (isRenewed) return send(method, path, more, true);
    isSignedOut.value = true;
  }
  throw new ApiError(answer.status, said.error ?? {}, answer.headers.get('x-request-id'));
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
