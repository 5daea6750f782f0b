/** The library that pages and parts are written with, and its types. */

import * as hooks from './vendor/hooks.mjs';
import htm from './vendor/htm.mjs';
import * as preact from './vendor/preact.mjs';
import * as signals from './vendor/signals.mjs';

/**
 * A value that notifies its readers when it changes.
 * @template T
 * @typedef {{value: T, peek: () => T}} Signal
 */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(preact.h);
/** @type {(view: any, into: Element) => void} */
export const render = preact.render;

/** @type {(callback: () => void | (() => void), needs?: any[]) => void} */
export const useEffect = hooks.useEffect;
/** Like `useEffect`, but before the page is painted. @type {(callback: () => void | (() => void), needs?: any[]) => void} */
export const useLayoutEffect = hooks.useLayoutEffect;
/** @type {<T>(make: () => T, needs: any[]) => T} */
export const useMemo = hooks.useMemo;
/** @type {<T>(first: T) => {current: T}} */
export const useRef = hooks.useRef;
/** @type {<T>(first: T) => [T, (next: T | ((was: T) => T)) => void]} */
export const useState = hooks.useState;

/** @type {<T>(first: T) => Signal<T>} */
export const signal = signals.signal;
/** @type {<T>(make: () => T) => Signal<T>} */
export const computed = signals.computed;
/** @type {(callback: () => void) => () => void} */
export const effect = signals.effect;
