// A chat of the AI SDK without a page, as its bindings for other frameworks make one.

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with(index, message); };
  snapshot = value => structuredClone(value);
}

/** A chat of one version of the SDK, at one address. */
export function openChat({ sdk, api, chat, headers, messages = [], ...options }) {
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
