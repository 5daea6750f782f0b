// The code that the pages of the documentation show to programs in a browser.
import { readFileSync } from 'node:fs';

/** Run the shown blocks of a page that have one of these texts in them, with some names given, and
 *  return the value of an expression behind them. */
export function runShown(page, texts, given, value) {
  const written = readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8');
  const shown = [...written.matchAll(/^<!-- shown -->\n```js\n(.*?)^```$/gms)].map(block => block[1]);
  const code = texts.map(text => {
    const found = shown.filter(block => block.includes(text));
    if (found.length !== 1) throw new Error(`${page} shows ${text} in ${found.length} blocks`);
    return found[0];
  });
  const body = value === undefined ? `return ${code.join('')}` : `${code.join('\n')}\nreturn ${value};`;
  return new Function(...Object.keys(given), body)(...Object.values(given));
}
