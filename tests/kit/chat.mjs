// The AI SDK's own chat client, without a page: one process plays many scenarios.
// It reads lines of JSON, {version, api, chat, play, ...}, and answers each with a line of JSON.
import { createInterface } from 'node:readline';
import * as loose from 'ai';
import * as strict from 'ai-strict';
import * as seven from 'ai-7';
import { openHook } from './hook.mjs';
import { plays } from './plays.mjs';

const sdks = { loose, strict, seven };

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, message); };
  snapshot = value => structuredClone(value);
}

/** A chat of one version of the SDK, or of the hook, at one address. */
function open(asked) {
  return asked.version === 'hook' ? openHook({ ...asked, sdk: loose }) : openChat(asked);
}

function openChat({ version, api, chat, messages = [], ...options }) {
  const sdk = sdks[version];
  const headers = version === 'seven' ? { 'x-ai-sdk-version': '7' } : {};
  class Chat extends sdk.AbstractChat {
    constructor({ transport, ...more }) {
      const state = new State();
      state.messages = messages;
      super({ id: chat, state, transport: new sdk.DefaultChatTransport({ api, headers, ...transport }), ...more });
    }
  }
  const heard = { data: [], finish: undefined };
  const made = new Chat({
    onData: part => heard.data.push(part),
    onFinish: told => { heard.finish = told.finishReason; },
    ...options,
  });
  return Object.assign(made, { heard, api });
}

/** Wait until a condition holds, looking at every turn of the event loop. */
async function until(condition) {
  while (!(await condition())) await new Promise(resolve => setTimeout(resolve, 5));
}

function shown(chat) {
  return {
    messages: chat.messages,
    status: chat.status,
    error: chat.error?.message,
    finish: chat.heard.finish,
    data: chat.heard.data,
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  try {
    const told = await plays[asked.play]({
      open: more => open({ ...asked, ...more }),
      sdk: sdks[asked.version] ?? loose,
      shown,
      until,
      ...asked,
    });
    console.log(JSON.stringify(told));
  } catch (error) {
    console.log(JSON.stringify({ thrown: String(error?.stack ?? error) }));
  }
}
