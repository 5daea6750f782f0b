// A chat with an agent: it loads what was said, goes on with a run that works, asks for approvals,
// and lets the user stop. Bundle it with
//   esbuild chat.jsx --bundle --jsx=automatic --outfile=chat.js
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { useEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';

const api = '/v1/ai-sdk/agents/clerk/chat';
const transport = new DefaultChatTransport({ api, fetch: patient });

/** Ask again while no server answers: it is away, or about to end, or a proxy has none. A request
 *  that comes twice is carried out once. */
async function patient(...request) {
  for (;;) {
    const answer = await fetch(...request).catch(error => {
      if (!(error instanceof TypeError)) throw error; // the page has stopped it
    });
    if (answer && ![502, 503, 504].includes(answer.status)) return answer;
    await soon();
  }
}

const soon = () => new Promise(resolve => setTimeout(resolve, 1000));

/** What was said in a chat; a chat that does not exist yet has no messages. */
async function load(id) {
  const answer = await patient(`${api}/${id}/messages`);
  if (answer.status === 404) return [];
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

const isCut = chat => chat.error instanceof TypeError;
const isBusy = chat => ['submitted', 'streaming'].includes(chat.status);
const isAnswered = message => message?.parts.some(part => part.state === 'approval-responded');

/** Follow the runs of a chat whose connection broke, until none works: the messages that are loaded
 *  end with the user's while one does. `page.current` is the chat as it is at the moment. */
async function follow(id, page) {
  for (;;) {
    await soon();
    if (isBusy(page.current)) continue; // the page has sent something, and reads what comes of it
    page.current.clearError();
    await page.current.resumeStream();
    const messages = await load(id);
    if (isBusy(page.current)) continue;
    page.current.setMessages(messages);
    if (messages.at(-1)?.role !== 'user' && !isCut(page.current)) return;
  }
}

/** A tool call, with two buttons if it waits for a yes. */
function Call({ part, answer }) {
  const name = part.type.replace('tool-', '');
  const says = part.state === 'output-available' ? JSON.stringify(part.output) : part.state;
  return (
    <div className="call">
      {name} {JSON.stringify(part.input)}: {says}
      {part.state === 'approval-requested' && (
        <>
          <button onClick={() => answer({ id: part.approval.id, approved: true })}>Approve</button>
          <button onClick={() => answer({ id: part.approval.id, approved: false })}>Deny</button>
        </>
      )}
    </div>
  );
}

function Part({ part, answer }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  return part.type.startsWith('tool-') ? <Call part={part} answer={answer} /> : null;
}

function Chat({ id, loaded }) {
  const [text, setText] = useState('');
  const chat = useChat({
    id,
    messages: loaded,
    transport,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const page = useRef(chat);
  page.current = chat;
  const follows = useRef(false);
  useEffect(() => {
    if (!chat.error || follows.current) return;
    if (isCut(chat)) {
      follows.current = true;
      const end = () => (follows.current = false);
      follow(id, page).catch(error => console.error(error)).finally(end);
    } else if (isAnswered(chat.messages.at(-1))) {
      load(id).then(chat.setMessages); // the answer was refused: ask once more
    }
  }, [chat.error]);
  const send = event => {
    event.preventDefault();
    chat.sendMessage({ text });
    setText('');
  };
  return (
    <>
      {chat.messages.map(message => (
        <section key={message.id} className={message.role}>
          {message.metadata?.error && <p>{message.metadata.error}</p>}
          {message.parts.map((part, index) => (
            <Part key={index} part={part} answer={chat.addToolApprovalResponse} />
          ))}
        </section>
      ))}
      {chat.error && <p role="alert">{chat.error.message}</p>}
      <form onSubmit={send}>
        <input value={text} onChange={event => setText(event.target.value)} aria-label="Message" />
        <button>Send</button>
        <button type="button" onClick={() => fetch(`${api}/${id}/cancel`, { method: 'POST' })}>
          Stop
        </button>
      </form>
      <output>{chat.status}</output>
    </>
  );
}

/** The chat that the address names behind `#`. */
async function open() {
  const id = location.hash.slice(1) || `chat-${Date.now()}`;
  location.hash = id;
  createRoot(document.getElementById('root')).render(<Chat id={id} loaded={await load(id)} />);
}

open();
