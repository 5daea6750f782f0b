/** The tickets of the scope, as the server tells of them. */

import { get } from './api.mjs';
import { computed, signal } from './view.mjs';
import { followTickets } from './wire.mjs';

const known = signal(/** @type {Map<string, any>} */ (new Map()));

/** The open tickets, oldest first. */
export const openTickets = computed(() =>
  [...known.value.values()].filter((ticket) => ticket.status === 'open').sort((a, b) => a.asked_at - b.asked_at),
);
/** The latest status of each ticket, so that a card is read anew when it changes. */
export const changes = computed(() => new Map([...known.value].map(([key, ticket]) => [key, ticket.status])));
/** What kept the tickets from being read, or null; undefined until they were asked for. */
export const problem = signal(/** @type {any} */ (undefined));

/** @param {any[]} tickets */
function learn(tickets) {
  const now = new Map(known.value);
  for (const ticket of tickets) now.set(ticket.key, ticket);
  known.value = now;
}

/** Read the open tickets, then follow them until the signal. @param {AbortSignal} until */
export async function watchTickets(until) {
  await readTickets();
  if (problem.value === null) await followTickets((ticket) => learn([ticket]), until);
}

export async function readTickets() {
  try {
    learn((await get('/v1/tickets', { status: 'open', limit: 500 })).items);
    problem.value = null;
  } catch (error) {
    problem.value = error;
  }
}
