// The AI SDK's own chat client, without a page: one process plays many scenarios.
// It reads lines of JSON, {version, api, chat, play, ...}, and answers each with a line of JSON.
import { createInterface } from 'node:readline';
import * as loose from 'ai';
import * as strict from 'ai-strict';
import * as seven from 'ai-7';
import { openHook } from './hook.mjs';
import { plays } from './plays.mjs';
import { openChat } from './state.mjs';

const sdks = { loose, strict, seven };

/** A chat of one version of the SDK, or of the hook, at one address. */
function open({ version, ...asked }) {
  if (version === 'hook') return openHook({ ...asked, sdk: loose });
  const headers = version === 'seven' ? { 'x-ai-sdk-version': '7' } : {};
  return openChat({ ...asked, headers, sdk: sdks[version] });
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
