// Pages that stay open while their servers end, one after the other: each page
// follows its run as `docs/react.md` tells it to, or with the code of `docs/ag-ui.md`.
//
// Each line of standard input is the address of the server that takes requests from then on. For each
// word of the answer a line says that every page has it; the last line has what the pages show.
import http from 'node:http';
import { createInterface } from 'node:readline';
import * as agui from '@ag-ui/client';
import * as agui0 from '@ag-ui/client-0';
import * as six from 'ai';
import * as strict from 'ai-strict';
import * as seven from 'ai-7';
import { openHook } from './hook.mjs';
import { runShown } from './page.mjs';
import { openChat } from './state.mjs';

const WORDS = ['one', 'two', 'three'];
console.warn = console.error = () => {};

// -- what stands before the servers ----------------------------------------------------------------

let server;

/** Pass a request on to the server of the moment. An answer that breaks off there breaks off here. */
const balancer = http.createServer((request, response) => {
  const { hostname, port } = new URL(server);
  const path = request.url;
  const passed = http.request({ hostname, port, path, method: request.method, headers: { ...request.headers, host: `${hostname}:${port}` } }, answer => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
    answer.on('close', () => answer.complete || response.destroy());
  });
  passed.on('error', () => response.destroy());
  request.pipe(passed);
});
await new Promise(done => balancer.listen(0, '127.0.0.1', done));
const address = `http://127.0.0.1:${balancer.address().port}`;

// -- pages -----------------------------------------------------------------------------------------

const soon = () => new Promise(done => setTimeout(done, 50));
const says = text => WORDS.filter(word => text.includes(word)).length;

/** Ask again while the server that would answer is about to end. */
async function patient(...request) {
  for (;;) {
    const answer = await fetch(...request);
    if (answer.status !== 503) return answer;
    await soon();
  }
}

async function chatPage(name, open) {
  const api = `${address}/v1/ai-sdk/agents/teller/chat`;
  let error;
  const chat = await open({ api, chat: name, transport: { fetch: patient }, onError: told => { error = told; } });
  const text = () => chat.messages.filter(m => m.role === 'assistant').map(m => m.parts.map(part => part.text ?? '').join('')).join('|');
  const load = async () => (await patient(`${api}/${name}/messages`)).json();
  const breaks = [];
  const follow = async () => {
    await chat.sendMessage({ text: 'tell' });
    while (error instanceof TypeError) {
      breaks.push(error.message);
      error = undefined;
      await soon();
      chat.clearError(); // else a client of version 6 keeps the error if there is nothing to resume
      await chat.resumeStream();
      const loaded = await load().catch(() => undefined);
      if (loaded && error === undefined) chat.messages = loaded;
    }
    await soon(); // the page is drawn
    return { text: text(), status: chat.status, breaks };
  };
  return { words: () => says(text()), done: follow() };
}

/** `reach` asks for a run, and follows it from there. */
async function agentPage(name, lib, reach) {
  const breaks = [];
  const noted = async reached => {
    try {
      return await reached;
    } catch (error) {
      breaks.push(error.message);
      throw error;
    }
  };
  class Agent extends lib.HttpAgent {
    connect() {
      const where = `${this.url}/threads/${this.threadId}/connect`;
      return lib.transformHttpEventStream(lib.runHttpRequest(() => fetch(where)));
    }

    runAgent(parameters) {
      return noted(super.runAgent(parameters));
    }

    connectAgent() {
      return noted(super.connectAgent());
    }
  }
  const agent = new Agent({ url: `${address}/v1/ag-ui/agents/teller`, threadId: name });
  const text = () => agent.messages.filter(m => m.role === 'assistant').map(m => m.content).join('|');
  const follow = async () => {
    agent.addMessage({ id: `${name}-1`, role: 'user', content: 'tell' });
    await reach(agent);
    return { text: text(), status: agent.isRunning ? 'running' : 'ready', breaks };
  };
  return { words: () => says(text()), done: follow() };
}

/** The code of the page, with less time between two tries. */
const { follow, reconnect, isAway } = runShown(
  'ag-ui.md',
  ['function follow', 'unhandledRejection', 'function reconnect'],
  { setTimeout: done => setTimeout(done, 50) },
  '{ follow, reconnect, isAway }',
);

/** What CopilotKit does: it asks once, and tells `onError` of the break. */
const askAndReconnect = agent => agent.runAgent().catch(error => {
  if (!isAway(error)) throw error;
  return reconnect(agent);
});

// -- the play --------------------------------------------------------------------------------------

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
server = (await lines.next()).value;
(async () => {
  for await (const line of lines) server = line;
})();

const pages = {
  useChat: await chatPage('useChat', given => openHook({ ...given, sdk: six })),
  'ai 6': await chatPage('ai-6', given => openChat({ ...given, sdk: six })),
  'ai 6.0.230': await chatPage('ai-strict', given => openChat({ ...given, sdk: strict })),
  'ai 7': await chatPage('ai-7', given => openChat({ ...given, sdk: seven, headers: { 'x-ai-sdk-version': '7' } })),
  'ag-ui 1.0': await agentPage('ag-ui', agui, follow),
  'ag-ui 0.0.59': await agentPage('ag-ui-0', agui0, follow),
  'ag-ui 1.0, connecting': await agentPage('ag-ui-connects', agui, askAndReconnect),
  'ag-ui 0.0.59, connecting': await agentPage('ag-ui-0-connects', agui0, askAndReconnect),
};
for (let count = 1; count < WORDS.length; count += 1) {
  while (Object.values(pages).some(page => page.words() < count)) await soon();
  console.log(JSON.stringify({ words: count }));
}
const shown = {};
for (const [name, page] of Object.entries(pages)) shown[name] = await page.done;
console.log(JSON.stringify(shown));
process.exit(0);
