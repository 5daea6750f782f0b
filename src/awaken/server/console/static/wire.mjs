/**
 * Streams of events from the server, given on in batches.
 *
 * `EventSource` cannot send a header, so a stream of a thread is opened with a token that is good
 * for this thread, for seconds. A new stream continues behind the last event that has come.
 */

import { ApiError, ROOT, get, part, post, send } from './api.mjs';
import { parse } from './json.mjs';
import { addressOf, go } from './router.mjs';
import { computed, signal } from './view.mjs';

const KINDS = [
  'run_start', 'run_finish', 'step_start', 'step_end', 'text_delta', 'reasoning_delta',
  'tool_call_start', 'tool_call_delta', 'tool_call_ready', 'tool_call_stream_delta',
  'tool_call_done', 'tool_call_resumed', 'tool_call_cancel', 'stream_reset', 'step_snapshot',
  'inference_complete', 'context_compacted', 'messages_rewound', 'error',
];
const PACE = 66;
const PACE_HIDDEN = 1000;
const TOKEN_SECONDS = 30;
const HIDDEN_FOR = 20_000;
const WAITS = [500, 1000, 2000, 4000, 8000];

/** Whether the page has a connection to the server; `since` is when it was lost. */
export const connection = signal({ isOpen: true, since: 0 });

/** @param {boolean} isOpen */
function note(isOpen) {
  if (connection.value.isOpen !== isOpen) connection.value = { isOpen, since: Date.now() };
}

/** @param {number} tries */
const waitFor = (tries) => WAITS[Math.min(tries, WAITS.length - 1)] * (0.8 + Math.random() * 0.4);

/** Follow a thread with all its descendants, until the returned function is called.
 *
 * @param {{thread: string, root: string, after: string,
 *   onBatch: (events: any[]) => void, onError?: (error: ApiError) => void}} asked
 */
export function followThread({ thread, root, after, onBatch, onError }) {
  /** @type {EventSource | null} */
  let source = null;
  /** @type {any[]} */
  let queue = [];
  let cursor = after;
  let tries = 0;
  let isOver = false;
  /** @type {number | undefined} */
  let applying;
  /** @type {number | undefined} */
  let retrying;
  /** @type {number | undefined} */
  let hiding;

  const apply = () => {
    applying = undefined;
    const events = queue;
    queue = [];
    if (events.length && !isOver) onBatch(events);
  };
  const soon = () => {
    applying ??= setTimeout(
      () => (document.hidden ? apply() : requestAnimationFrame(apply)),
      document.hidden ? PACE_HIDDEN : PACE,
    );
  };
  const onMessage = (/** @type {MessageEvent} */ message) => {
    if (message.lastEventId) cursor = message.lastEventId;
    queue.push(parse(message.data));
    soon();
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const retry = () => {
    close();
    note(false);
    if (!isOver) retrying = setTimeout(open, waitFor(tries++));
  };
  const open = async () => {
    try {
      const { token } = await post('/v1/tokens', { thread_id: root, ttl: TOKEN_SECONDS });
      if (isOver) return;
      const query = new URLSearchParams({ after: cursor, tree: 'true', token });
      source = new EventSource(`${ROOT}/v1/threads/${part(thread)}/events?${query}`);
    } catch (error) {
      if (error instanceof ApiError && [400, 401, 403, 404].includes(error.status)) onError?.(error);
      else retry();
      return;
    }
    source.addEventListener('open', () => {
      tries = 0;
      note(true);
    });
    // An error of the server is an event of kind `error`, too: only that one has data.
    source.addEventListener('error', (event) => {
      if (!(event instanceof MessageEvent)) retry();
    });
    for (const kind of KINDS) source.addEventListener(kind, (event) => event instanceof MessageEvent && onMessage(event));
  };
  const onVisibility = () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, HIDDEN_FOR);
    else if (!source && !isOver) {
      clearTimeout(retrying);
      open();
    }
  };
  document.addEventListener('visibilitychange', onVisibility);
  open();
  return () => {
    isOver = true;
    close();
    [applying, retrying, hiding].forEach(clearTimeout);
    document.removeEventListener('visibilitychange', onVisibility);
  };
}

/** Follow the scope's tickets for as long as the page is open. They are few, so they are read by
 * `fetch`, which sends the session's token.
 * @param {(ticket: any) => void} onTicket @param {AbortSignal} signal */
export async function followTickets(onTicket, signal) {
  for (let tries = 0; !signal.aborted; tries += 1) {
    try {
      const answer = await send('GET', '/v1/tickets/events', { signal, headers: { accept: 'text/event-stream' } });
      tries = 0;
      note(true);
      for await (const data of frames(answer)) onTicket(parse(data));
    } catch (error) {
      if (error instanceof ApiError && [401, 403].includes(error.status)) return;
    }
    if (signal.aborted) return;
    note(false);
    await new Promise((resolve) => setTimeout(resolve, waitFor(tries)));
  }
}

/** The data of server-sent events. @param {Response} answer */
async function* frames(answer) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const parts = text.split('\n\n');
    text = parts.pop() ?? '';
    for (const frame of parts) {
      const data = frame.split('\n').find((line) => line.startsWith('data: '));
      if (data) yield data.slice(6);
    }
  }
}

// -- The tickets of the scope.

const known = signal(/** @type {Map<string, any>} */ (new Map()));

/** The open tickets, oldest first. */
export const openTickets = computed(() =>
  [...known.value.values()].filter((ticket) => ticket.status === 'open').sort((a, b) => a.asked_at - b.asked_at),
);
/** The latest status of each ticket, so that a card is read anew when it changes. */
export const changes = computed(() => new Map([...known.value].map(([key, ticket]) => [key, ticket.status])));
/** The rows of open tickets that the server cannot read. */
export const unreadableTickets = signal(/** @type {any[]} */ ([]));
/** The error of reading the tickets, or null; undefined until they were requested. */
export const problem = signal(/** @type {any} */ (undefined));

/** @param {any[]} tickets */
function updateTickets(tickets) {
  const now = new Map(known.value);
  for (const ticket of tickets) now.set(ticket.key, ticket);
  known.value = now;
}

/** Whether the page may ask for permission to notify of new questions while it is hidden. */
export const mayAsk = signal('Notification' in window && Notification.permission === 'default');

export async function askToNotify() {
  await Notification.requestPermission();
  mayAsk.value = Notification.permission === 'default';
}

/** Tell of a question that is new while nobody sees the page. @param {any} ticket */
function notify(ticket) {
  const isNew = ticket.status === 'open' && !known.value.has(ticket.key);
  if (!isNew || !document.hidden || !('Notification' in window) || Notification.permission !== 'granted') return;
  const shown = new Notification(`${ticket.tool_name} waits for an answer`, { body: `thread ${ticket.thread_id}`, tag: ticket.key });
  shown.onclick = () => {
    focus();
    go(addressOf(['inbox'], { ticket: ticket.key }));
    shown.close();
  };
}

/** Read the open tickets, then follow them until the signal. @param {AbortSignal} until */
export async function watchTickets(until) {
  await readTickets();
  for (let tries = 0; problem.value && ![401, 403].includes(problem.value.status); tries += 1) {
    if (problem.value.status === 0) note(false);
    await new Promise((resolve) => setTimeout(resolve, waitFor(tries)));
    if (until.aborted) return;
    await readTickets();
  }
  if (!problem.value) await followTickets((ticket) => (notify(ticket), updateTickets([ticket])), until);
}

export async function readTickets() {
  try {
    const page = await get('/v1/tickets', { status: 'open', limit: 500 });
    updateTickets(page.items);
    unreadableTickets.value = page.unreadable ?? [];
    problem.value = null;
  } catch (error) {
    problem.value = error;
  }
}
