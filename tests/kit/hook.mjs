// The real `useChat`, in a page of jsdom, with the methods of a chat.
import { JSDOM } from 'jsdom';

const { window } = new JSDOM('<div id="root"></div>');
Object.assign(globalThis, { window, document: window.document });
const { createElement } = await import('react');
const { createRoot } = await import('react-dom/client');
const { useChat } = await import('@ai-sdk/react');

const turn = () => new Promise(resolve => setTimeout(resolve, 0));

/** A page that shows a chat; what its methods return is read when the page was drawn again. */
export async function openHook({ sdk, api, chat: id, messages, transport, ...options }) {
  const heard = { data: [], finish: undefined };
  let told;
  const link = new sdk.DefaultChatTransport({ api, ...transport });
  function Page() {
    told = useChat({
      id,
      messages,
      transport: link,
      onData: part => heard.data.push(part),
      onFinish: end => { heard.finish = end.finishReason; },
      ...options,
    });
    return null;
  }
  createRoot(document.createElement('div')).render(createElement(Page));
  while (told === undefined) await turn();
  const drawn = name => async (...given) => {
    const result = await told[name](...given);
    await turn();
    return result;
  };
  const methods = ['sendMessage', 'regenerate', 'resumeStream', 'stop', 'clearError', 'addToolOutput', 'addToolApprovalResponse'];
  return {
    id, api, heard,
    get messages() { return told.messages; },
    set messages(given) { told.setMessages(given); },
    get lastMessage() { return told.messages.at(-1); },
    get status() { return told.status; },
    get error() { return told.error; },
    ...Object.fromEntries(methods.map(name => [name, drawn(name)])),
  };
}
