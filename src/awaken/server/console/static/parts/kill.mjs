/** The demo's bar: its button kills the server, which is started again by its parent process. */

import { get, send } from '../api.mjs';
import { took } from '../format.mjs';
import { announce } from '../shell.mjs';
import { html, useState } from '../view.mjs';

const PAUSE = 300;

export function KillBar() {
  const [words, setWords] = useState('The demo shop: answer the question that waits for you. Nothing is lost if the server dies.');
  const [isDead, setIsDead] = useState(false);
  const kill = async () => {
    const began = Date.now();
    setIsDead(true);
    setWords('The server was killed with SIGKILL, which leaves it no time to save anything. It is being started again…');
    await send('POST', '/v1/demo/kill');
    while (!(await get('/v1/me').catch(() => null))) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    const sentence = `The server was dead for ${took(Date.now() - began)}. A new process went on from the last commit: nothing was lost, nothing is done twice.`;
    setIsDead(false);
    setWords(sentence);
    announce(sentence);
  };
  return html`<div class="bar-note demo"><span>${words}</span>
    <button class="no" disabled=${isDead} onClick=${kill}>Kill the server</button></div>`;
}
