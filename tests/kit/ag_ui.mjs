// Plays every scenario with the official AG-UI clients, against one server, and prints what each
// client holds in the end. Their `verifyEvents` refuses a stream that breaks the protocol's rules.
//
//   node ag_ui.mjs <address of the server> <a prefix for thread ids>
import * as current from "@ag-ui/client";
import * as earlier from "@ag-ui/client-0";

const [address, prefix] = process.argv.slice(2);
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = () => {};

const picker = {
  name: "pick_color",
  description: "Let the user pick a color.",
  parameters: { type: "object", properties: { hint: { type: "string" } } },
};

function client(lib, threadId) {
  const url = `${address}/v1/ag-ui/agents/desk`;
  const version = lib === current ? "?protocolVersion=1.0" : "";
  class Agent extends lib.HttpAgent {
    connect() {
      const where = `${url}/threads/${this.threadId}/connect${version}`;
      return lib.transformHttpEventStream(lib.runHttpRequest(() => fetch(where)));
    }
  }
  const agent = new Agent({ url, threadId });
  agent.events = [];
  agent.subscribe({ onEvent: ({ event }) => void agent.events.push(event) });
  agent.say = (text) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    return agent.runAgent({ tools: [picker] });
  };
  return agent;
}

const control = (what, thread) => fetch(`${address}/control/${what}/${thread}`, { method: "POST" });
const types = (agent) => agent.events.map((event) => event.type);
const finished = (agent) => agent.events.findLast((event) => event.type === "RUN_FINISHED");
const told = (agent) =>
  agent.messages.map((message) => ({
    role: message.role,
    content: message.content ?? null,
    calls: (message.toolCalls ?? []).map((call) => [
      call.function.name,
      JSON.parse(call.function.arguments || "null"),
    ]),
    ...(message.toolCallId && { answers: message.toolCallId }),
    ...(message.subagentRunId && { by: "subagent" }),
  }));
const until = (agent, found) =>
  new Promise((resolve) => agent.subscribe({ onEvent: ({ event }) => void (found(event) && resolve()) }));

async function answer(agent, payload, status = "resolved") {
  const resume = agent.pendingInterrupts.map((interrupt) => ({
    interruptId: interrupt.id,
    status,
    ...(payload !== undefined && { payload }),
  }));
  await agent.runAgent({ resume, tools: [picker] });
}

const scenarios = {
  async text(agent) {
    await agent.say("hello");
    return { usage: finished(agent).usage, result: finished(agent).result };
  },
  async tools(agent) {
    await agent.say("weather");
  },
  async approved(agent) {
    await agent.say("ship");
    const { id, expiresAt, metadata, ...asked } = agent.pendingInterrupts[0];
    await answer(agent, { approved: true });
    return { asked, expires: expiresAt !== undefined };
  },
  async approved_as_copilotkit_does(agent) {
    const runId = crypto.randomUUID();
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "ship" });
    await agent.runAgent({ runId, tools: [picker] });
    const [{ id, toolCallId }] = agent.pendingInterrupts;
    const payload = { approved: true };
    agent.addMessage({ id: "own", role: "tool", toolCallId, content: JSON.stringify(payload) });
    const resume = [{ interruptId: id, status: "resolved", payload }];
    await agent.runAgent({ runId, resume, tools: [picker] });
  },
  async denied(agent) {
    await agent.say("ship");
    await answer(agent, { approved: false, reason: "too late" });
  },
  async cancelled_interrupt(agent) {
    await agent.say("ship");
    await answer(agent, undefined, "cancelled");
  },
  async edited(agent) {
    await agent.say("ship");
    await answer(agent, { approved: true, editedArgs: { order: "B2" } });
  },
  async pending(agent) {
    await agent.say("ship");
    agent.pendingInterrupts = []; // else the client refuses by itself
    await agent.say("hello?");
    const error = agent.events.findLast((event) => event.type === "RUN_ERROR");
    return { code: error.code };
  },
  async frontend(agent) {
    await agent.say("pick");
    const call = agent.messages.at(-1).toolCalls[0];
    const pending = finished(agent).outcome.pendingToolCallIds;
    agent.addMessage({ id: "picked", role: "tool", toolCallId: call.id, content: "blue" });
    await agent.runAgent({ tools: [picker] });
    return { pending: pending?.length ?? null, ids: agent.messages.map((m) => m.id).includes("picked") };
  },
  async mixed(agent) {
    await agent.say("mix");
    const asked = agent.pendingInterrupts.length;
    const call = agent.messages.at(-1).toolCalls.find((made) => made.function.name === "pick_color");
    agent.addMessage({ id: "picked", role: "tool", toolCallId: call.id, content: "blue" });
    await answer(agent, { approved: true });
    return { asked };
  },
  async half(agent) {
    const writing = until(agent, (event) => event.type === "TEXT_MESSAGE_CONTENT");
    const run = agent.say(`slow ${agent.threadId}`);
    await writing;
    agent.abortRun();
    await run.catch(() => {});
    const begun = until(agent, (event) => event.type === "RUN_STARTED");
    const next = agent.say("hello");
    await begun;
    await control("go", agent.threadId);
    await next;
  },
  async ignored(agent) {
    await agent.say("pick");
    await agent.say("never mind");
  },
  async cancel(agent) {
    const writing = until(agent, (event) => event.type === "TEXT_MESSAGE_CONTENT");
    const run = agent.say(`slow ${agent.threadId}`);
    await writing;
    await control("cancel", agent.threadId);
    await run;
    return { outcome: finished(agent).outcome ?? null, as: finished(agent).metadata.awaken.termination };
  },
  async delegate(agent, lib) {
    await agent.say("delegate");
    const begun = agent.events.find((event) => event.type === "SUBAGENT_STARTED");
    const other = client(lib, agent.threadId);
    await other.connectAgent();
    const lasting = told(agent).filter((message) => message.role !== "activity");
    return {
      name: begun.name,
      call: begun.parentToolCallId !== undefined,
      same: JSON.stringify(told(other)) === JSON.stringify(lasting),
    };
  },
  async delegate_asks(agent) {
    await agent.say("delegate a shipment");
    const tagged = agent.pendingInterrupts[0].subagentRunId !== undefined;
    await answer(agent, { approved: true });
    return { tagged };
  },
  async failure(agent) {
    await agent.say("fail");
    const error = agent.events.findLast((event) => event.type === "RUN_ERROR");
    return { message: error.message, code: error.code };
  },
  async reconnect(agent) {
    const writing = until(agent, (event) => event.type === "TEXT_MESSAGE_CONTENT");
    const run = agent.say(`slow ${agent.threadId}`);
    await writing;
    agent.abortRun();
    await run.catch(() => {});
    agent.events.length = 0;
    const again = until(agent, (event) => event.type === "TEXT_MESSAGE_CONTENT");
    const connected = agent.connectAgent();
    await again;
    await control("go", agent.threadId);
    await connected;
  },
  async reconnect_to_interrupt(agent, lib) {
    await agent.say("ship");
    const other = client(lib, agent.threadId);
    await other.connectAgent();
    const asked = other.pendingInterrupts.length;
    await answer(other, { approved: true });
    agent.messages = other.messages;
    return { asked };
  },
  async asked_and_connected(agent) {
    await agent.say("ship");
    const refused = await agent.connectAgent().catch((error) => error.message);
    agent.pendingInterrupts = []; // else the client sends nothing
    await agent.connectAgent();
    const asked = agent.pendingInterrupts.length;
    await answer(agent, { approved: true });
    return { asked, refused: /pending interrupt/.test(refused) };
  },
  async regenerate(agent) {
    await agent.say("hello");
    await agent.say("weather");
    agent.setMessages(agent.messages.slice(0, 3)); // up to the user's second message
    await agent.runAgent();
    const kept = agent.messages.map((message) => message.id).join();
    await agent.connectAgent();
    return { same: kept === agent.messages.map((message) => message.id).join() };
  },
  async state(agent) {
    agent.setState({ notes: ["mine"], draft: "only here" });
    await agent.say("note");
    return { state: agent.state };
  },
  async reasoning(agent) {
    await agent.say("think");
  },
  async taken_back(agent) {
    const writing = until(agent, (event) => event.type === "TEXT_MESSAGE_CONTENT");
    const run = agent.say(`stumble ${agent.threadId}`);
    await writing;
    await control("go", agent.threadId);
    await run;
  },
};

const results = {};
for (const [version, lib] of [["1.0", current], ["0.0.59", earlier]]) {
  await Promise.all(
    Object.entries(scenarios).map(async ([name, play]) => {
      const agent = client(lib, `${prefix}-${version.replaceAll(".", "-")}-${name}`);
      const key = `${version} ${name}`;
      try {
        const extra = await play(agent, lib);
        results[key] = { messages: told(agent), types: types(agent), ...extra };
      } catch (error) {
        results[key] = { failed: String(error.stack ?? error), types: types(agent) };
      }
    }),
  );
}
console.log(JSON.stringify({ results, warnings }));
