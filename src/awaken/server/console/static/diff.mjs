/** The difference of two JSON values. No DOM. */

import { isExact } from './fields.mjs';

/** A place at which two values differ; `before` or `after` is missing if there was nothing.
 * @typedef {{path: string[], before?: any, after?: any}} Change */

/** @param {any} value */
const isRecord = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && !isExact(value);

/** The changes that make the one value the other, as few and as deep as records allow; lists are
 * compared whole. @param {any} before @param {any} after @param {string[]} [path]
 * @returns {Change[]} */
export function changesBetween(before, after, path = []) {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  if (!isRecord(before) || !isRecord(after)) return [{ path, before, after }];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => {
    const at = [...path, key];
    if (!Object.hasOwn(after, key)) return [{ path: at, before: before[key] }];
    if (!Object.hasOwn(before, key)) return [{ path: at, after: after[key] }];
    return changesBetween(before[key], after[key], at);
  });
}

/** The value with the changes made. @param {any} value @param {Change[]} changes */
export function withChanges(value, changes) {
  let made = structuredClone(value);
  for (const { path, ...change } of changes) {
    if (!path.length) made = change.after;
    else {
      const last = /** @type {string} */ (path[path.length - 1]);
      const at = path.slice(0, -1).reduce((record, key) => record[key], made);
      if ('after' in change) Object.defineProperty(at, last, { value: change.after, enumerable: true, configurable: true, writable: true });
      else delete at[last];
    }
  }
  return made;
}
