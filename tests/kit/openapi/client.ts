// Runs an agent with a client whose types are generated: `node client.js <address>`.
import createClient from 'openapi-fetch';
import type { paths } from './api.js';

declare const process: { argv: string[] };
const client = createClient<paths>({ baseUrl: process.argv[2] });
const agents = await client.GET('/v1/agents');
const run = await client.POST('/v1/threads/{thread}/runs', {
  params: { path: { thread: 't' }, query: { wait: 60 } },
  body: { agent_id: 'payer', messages: ['Pay 5'] },
});
const tickets = await client.GET('/v1/tickets', { params: { query: { limit: 2 } } });
const ticket = tickets.data!.items[0]!;
const decided = await client.POST('/v1/runs/{run}/decisions', {
  params: { path: { run: ticket.run_id } },
  body: [{ ticket: ticket.key, action: 'approve', digest: ticket.digest! }],
});
const unknown = await client.GET('/v1/runs/{run}', { params: { path: { run: 'none' } } });
console.log(
  JSON.stringify({
    agents: agents.data?.items.map(agent => agent.id).sort(),
    run: run.response.status,
    decided: decided.response.status,
    unknown: unknown.error?.error.code,
  }),
);
