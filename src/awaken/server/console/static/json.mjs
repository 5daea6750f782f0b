/** A JSON record as fields that people fill in, and back. No DOM. */

/** One field: its kind says how its text is read. `was` is its value before anyone changed it.
 * @typedef {{name: string, kind: 'text' | 'number' | 'choice' | 'json', title: string,
 *   choices?: string[], was?: any, isNeeded: boolean}} Field */

const MOST = 12;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** @param {any} value */
const isRecord = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && !isExact(value);

/** Whether a value is a number that JavaScript cannot hold, kept as it was written. @param {any} value */
export const isExact = (value) => /** @type {any} */ (JSON).isRawJSON?.(value) ?? false;

/** JSON with every digit of its numbers: `12345678901234567890` is no `12345678901234567000`.
 * @param {string} text @returns {any} */
export function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, exactly);
}

/** @type {(this: any, key: string, value: any, context?: any) => any} */
function exactly(key, value, context) {
  const source = context?.source;
  if (typeof value !== 'number' || source === undefined || Number.isSafeInteger(value)) return value;
  return !/[.eE]/.test(source) && 'rawJSON' in JSON ? /** @type {any} */ (JSON).rawJSON(source) : value;
}

/** The fields of a call's arguments, or null if they are better written as JSON.
 * @param {any} value @returns {Field[] | null} */
export function fieldsOfValue(value) {
  if (!isRecord(value)) return null;
  const pairs = Object.entries(value);
  if (!pairs.length || pairs.length > MOST) return null;
  return pairs.map(([name, was]) => ({ name, title: name, kind: kindOfValue(was), was, isNeeded: true, ...choicesOf(typeof was) }));
}

/** @param {any} value @returns {Field['kind']} */
function kindOfValue(value) {
  if (typeof value === 'string') return 'text';
  if (typeof value === 'boolean') return 'choice';
  return typeof value === 'number' || isExact(value) ? 'number' : 'json';
}

/** @param {string} kind */
const choicesOf = (kind) => (kind === 'boolean' ? { choices: ['true', 'false'] } : {});

/** The fields that a JSON schema asks for, or null if it asks for no record.
 * @param {any} schema @returns {Field[] | null} */
export function fieldsOfSchema(schema) {
  if (!isRecord(schema) || !isRecord(schema.properties)) return null;
  const pairs = Object.entries(schema.properties);
  if (!pairs.length || pairs.length > MOST) return null;
  const needed = Array.isArray(schema.required) ? schema.required : [];
  return pairs.map(([name, asked]) => fieldOfSchema(name, isRecord(asked) ? asked : {}, needed.includes(name)));
}

/** @param {string} name @param {any} asked @param {boolean} isNeeded @returns {Field} */
function fieldOfSchema(name, asked, isNeeded) {
  const field = { name, title: asked.title || name, was: asked.default, isNeeded };
  const isList = Array.isArray(asked.enum) && asked.enum.every((/** @type {any} */ one) => typeof one === 'string');
  if (isList) return { ...field, kind: 'choice', choices: asked.enum };
  if (asked.type === 'boolean') return { ...field, kind: 'choice', ...choicesOf('boolean') };
  if (asked.type === 'integer' || asked.type === 'number') return { ...field, kind: 'number' };
  return { ...field, kind: asked.type === 'string' ? 'text' : 'json' };
}

/** The text that a field begins with. @param {Field} field */
export function textOfField({ kind, was }) {
  if (was === undefined) return '';
  return kind === 'text' || kind === 'choice' ? String(was) : JSON.stringify(was, null, 2);
}

/** What the texts of fields say, or what is wrong with them.
 * @param {Field[]} fields @param {Record<string, string>} texts
 * @returns {{value?: any, problem?: string}} */
export function readFields(fields, texts) {
  /** @type {[string, any][]} */
  const pairs = [];
  for (const field of fields) {
    const text = texts[field.name] ?? textOfField(field);
    if (!text.trim() && field.was === undefined) {
      if (field.isNeeded) return { problem: `${field.title} is missing` };
      continue;
    }
    const read = readField(field, text);
    if (read.problem) return read;
    pairs.push([field.name, read.value]);
  }
  return { value: Object.fromEntries(pairs) };
}

/** A number that is none stays text: the tool says in its own words what it wants.
 * @param {Field} field @param {string} text @returns {{value?: any, problem?: string}} */
function readField(field, text) {
  if (field.kind === 'text') return { value: text };
  if (field.kind === 'choice') return { value: field.choices?.join() === 'true,false' ? text === 'true' : text };
  if (field.kind === 'number') return { value: NUMBER.test(text.trim()) ? parse(text.trim()) : text };
  try {
    return { value: parse(text) };
  } catch (error) {
    return { problem: `${field.title} is not JSON: ${/** @type {Error} */ (error).message}` };
  }
}

// -- The difference of two JSON values. No DOM.

/** A place at which two values differ; `before` or `after` is missing if there was nothing.
 * @typedef {{path: string[], before?: any, after?: any}} Change */

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
