// What a page does with a chat, scene by scene.
import { runShown } from './page.mjs';

const settled = chat => chat.status === 'ready' || chat.status === 'error';

const isOpen = part => part.state === 'approval-requested' || part.state === 'approval-responded';

/** Whether what was answered has come to its end. The status alone does not tell: it may have come
 *  and gone between two looks. */
const isOver = chat => chat.status === 'error' || (settled(chat) && !chat.lastMessage.parts.some(isOpen));

/** Answer the approvals that a chat has been asked for. */
async function respond(chat, answer) {
  const parts = chat.lastMessage.parts.filter(part => part.state === 'approval-requested');
  for (const part of parts) await chat.addToolApprovalResponse({ id: part.approval.id, ...answer });
  return parts;
}

export const plays = {
  /** Send a message, and read to the end. */
  async send({ open, shown, text, body }) {
    const chat = await open();
    await chat.sendMessage({ text }, { body });
    return shown(chat);
  },

  /** Send a message, answer what it asks, and read to the end. */
  async approve({ open, sdk, shown, until, text, answer, edits }) {
    const chat = await open({ sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithApprovalResponses(told) });
    await chat.sendMessage({ text });
    const asked = structuredClone(chat.lastMessage);
    const key = asked.parts.find(part => part.approval)?.approval.id;
    const options = edits && { body: { answers: { [key]: edits } } };
    await respond(chat, { ...answer, options });
    await until(() => isOver(chat));
    return { ...shown(chat), asked };
  },

  /** Send a message, and answer what it asks with arguments that do not fit; then write something
   *  else, or load the messages and answer again. */
  async misfit({ version, open, sdk, shown, until, text, misfit, edits, then }) {
    const errors = [];
    const chat = await open({
      sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithApprovalResponses(told),
      onError: error => errors.push([error.constructor.name, error.message]),
    });
    const answer = value => {
      const { id } = chat.lastMessage.parts.find(part => part.state === 'approval-requested').approval;
      return chat.addToolApprovalResponse({ id, approved: false, options: { body: { answers: { [id]: value } } } });
    };
    await chat.sendMessage({ text });
    await answer(misfit);
    await until(() => chat.status === 'error');
    const load = async () => { chat.messages = await (await fetch(`${chat.api}/${chat.id}/messages`)).json(); };
    if (then !== undefined) {
      await chat.sendMessage({ text: then });
      if (version === 'strict') await load(); // it adds a message that comes again
      return { ...shown(chat), errors };
    }
    await load();
    await until(() => chat.lastMessage.parts.some(part => part.state === 'approval-requested'));
    await answer(edits);
    await until(() => settled(chat) && chat.lastMessage.parts.some(part => part.state === 'output-available'));
    return { ...shown(chat), errors };
  },

  /** A tool that the page carries out. */
  async frontend({ open, sdk, shown, until, text, tools, output, errorText }) {
    let chat;
    chat = await open({
      sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithToolCalls(told),
      transport: { body: { tools } },
      onToolCall: ({ toolCall }) => {
        const told = errorText ? { state: 'output-error', errorText } : { output };
        chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, ...told });
      },
    });
    await chat.sendMessage({ text });
    await until(() => chat.status === 'error' || (settled(chat) && chat.lastMessage.role === 'assistant' && chat.lastMessage.parts.at(-1).type === 'text'));
    return shown(chat);
  },

  /** A tool of the page that it has not carried out when it is loaded again. */
  async taken_up({ open, sdk, shown, until, text, tools, output }) {
    const transport = { body: { tools } };
    const left = await open({ transport });
    await left.sendMessage({ text });
    const messages = await (await fetch(`${left.api}/${left.id}/messages`)).json();
    let chat;
    const onToolCall = ({ toolCall }) => chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
    chat = await open({
      messages,
      transport,
      onToolCall,
      sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithToolCalls(told),
    });
    for (const part of messages.at(-1)?.parts ?? []) {
      if (part.type === 'dynamic-tool' && part.state === 'input-available') onToolCall({ toolCall: part });
    }
    await until(() => chat.status === 'error' || (settled(chat) && chat.lastMessage.parts.at(-1).type === 'text'));
    return shown(chat);
  },

  /** Two messages with a file each, and one without, over the transport of the page or a plain one. */
  async attach({ api, open, text, size, as_shown }) {
    const errors = [];
    const DefaultChatTransport = function (options) { return options; };
    const transport = as_shown && runShown('react.md', ['prepareSendMessagesRequest'], { DefaultChatTransport, api });
    const chat = await open({ transport, onError: error => errors.push(error.message) });
    const files = [{ type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${'A'.repeat(size)}` }];
    const statuses = [];
    for (const more of [{ files }, { files }, {}]) {
      await chat.sendMessage({ text, ...more });
      statuses.push(chat.status);
    }
    return { statuses, errors, last: chat.lastMessage.parts.filter(part => part.type === 'text').map(part => part.text) };
  },

  /** A step with a tool of the page and a call that waits for a yes. */
  async mixed({ open, sdk, shown, until, text, tools, output }) {
    let chat, requests = 0;
    const errors = [];
    const counted = (...request) => {
      requests += 1;
      return fetch(...request);
    };
    chat = await open({
      sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithToolCalls(told) || sdk.lastAssistantMessageIsCompleteWithApprovalResponses(told),
      transport: { body: { tools }, fetch: counted },
      onError: error => errors.push(error.message),
      onToolCall: ({ toolCall }) => {
        if (toolCall.dynamic) chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
      },
    });
    await chat.sendMessage({ text });
    await until(() => requests > 1 && settled(chat));
    await respond(chat, { approved: true });
    await until(() => isOver(chat));
    return { ...shown(chat), requests, errors };
  },

  /** Cancel a run from the page while it works. */
  async cancel({ open, shown, until, text }) {
    const chat = await open();
    const sent = chat.sendMessage({ text });
    await until(() => chat.lastMessage?.parts.some(part => part.state === 'input-available'));
    const answer = await fetch(`${chat.api}/${chat.id}/cancel`, { method: 'POST' });
    await sent;
    return { ...shown(chat), cancelled: await answer.json() };
  },

  /** Leave in the middle of a run, come back as a page that was reloaded, and read to the end. */
  async reconnect({ open, shown, until, text, release }) {
    const chat = await open();
    const sent = chat.sendMessage({ text });
    await until(() => chat.lastMessage?.parts.some(part => part.state === 'input-available'));
    await chat.stop();
    await sent;
    const loaded = await (await fetch(`${chat.api}/${chat.id}/messages`)).json();
    const back = await open({ messages: loaded });
    const resumed = back.resumeStream();
    await until(() => back.lastMessage?.parts.some(part => part.state === 'input-available'));
    await fetch(release, { method: 'POST' });
    await resumed;
    const nothing = await fetch(`${chat.api}/${chat.id}/stream`);
    return { ...shown(back), loaded, status_afterwards: nothing.status };
  },

  /** Let the last answer be given once more, then edit the question. */
  async regenerate({ open, shown, text, edited }) {
    const chat = await open();
    await chat.sendMessage({ text });
    const first = structuredClone(chat.messages);
    await chat.regenerate();
    const second = structuredClone(chat.messages);
    await chat.sendMessage({ text: edited, messageId: chat.messages[0].id });
    return { ...shown(chat), first, second };
  },

  /** Send a message and approve what it asks, over a connection that breaks: the page then loads
   *  its messages, if it has to, and resumes the stream. */
  async endure({ open, sdk, shown, until, text, loads }) {
    const chat = await open({
      sendAutomaticallyWhen: told => sdk.lastAssistantMessageIsCompleteWithApprovalResponses(told),
    });
    const load = async () => {
      const answer = await fetch(`${chat.api}/${chat.id}/messages`);
      chat.messages = await answer.json();
    };
    const breaks = [];
    await chat.sendMessage({ text });
    for (;;) {
      if (chat.status === 'error') {
        breaks.push(chat.error.message);
        if (breaks.length > 9) break;
        chat.clearError();
        if (loads) await load();
        const before = chat.lastMessage;
        await chat.resumeStream();
        if (chat.status === 'ready' && chat.lastMessage === before) await load();
      } else if (chat.lastMessage.parts.some(part => part.state === 'approval-requested')) {
        const sent = respond(chat, { approved: true });
        await sent;
        await until(() => isOver(chat));
      } else break;
    }
    return { ...shown(chat), breaks };
  },

  /** The messages as a page that is loaded now would get them. */
  async load({ api, chat }) {
    const answer = await fetch(`${api}/${chat}/messages`);
    return { messages: await answer.json() };
  },
};
