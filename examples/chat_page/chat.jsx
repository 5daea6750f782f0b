// A chat with an agent: it loads what was said, goes on with a run that works, asks for approvals,
// and lets the user stop. Bundle it with
//   esbuild chat.jsx --bundle --jsx=automatic --outfile=chat.js
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai';
import { useEffect, useState } from 'react';
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
  useEffect(() => {
    if (!(chat.error instanceof TypeError)) return; // the run itself has failed: `chat.error` says why
    const follow = async () => {
      await soon();
      chat.clearError();
      await chat.resumeStream();
      chat.setMessages(await load(id));
    };
    follow().catch(error => console.error(error));
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
