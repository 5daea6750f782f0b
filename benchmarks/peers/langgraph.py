"""LangGraph: a model node and a `ToolNode` in a `StateGraph`, on a chat model of LangChain's."""

import asyncio
from contextlib import asynccontextmanager

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool as as_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from benchmarks.measure import main
from benchmarks.work import DELTA

QUESTION = {"messages": [("user", "go")]}


class StepModel(BaseChatModel):
    count: int
    delay: float = 0

    @property
    def _llm_type(self):
        return "steps"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.delay:
            await asyncio.sleep(self.delay)
        step = len(messages) // 2
        return answer([call(step)] if step < self.count else [])


class CallsModel(StepModel):
    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        first = len(messages) == 1
        return answer([call(n) for n in range(self.count)] if first else [])


class DeltaModel(StepModel):
    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for _ in range(self.count):
            yield ChatGenerationChunk(message=AIMessageChunk(content=DELTA))


class LangGraph:
    name = "langgraph"
    imports = "from langgraph.graph import StateGraph; from langgraph.prebuilt import ToolNode"

    @asynccontextmanager
    async def steps(self, count, delay, tally):
        graph = graph_of(StepModel(count=count, delay=delay), [tool(tally)])
        yield lambda: graph.ainvoke(QUESTION, {"recursion_limit": 3 * count + 3})

    @asynccontextmanager
    async def deltas(self, count, tally):
        graph = graph_of(DeltaModel(count=count), [])

        async def run():
            async for chunk, _ in graph.astream(QUESTION, stream_mode="messages"):
                tally.count += chunk.content == DELTA

        yield run

    @asynccontextmanager
    async def calls(self, count, tally):
        graph = graph_of(CallsModel(count=count), [tool(tally)])
        yield lambda: graph.ainvoke(QUESTION)


def graph_of(model, tools, checkpointer=None):
    async def ask(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_edge(START, "model")
    if tools:
        graph.add_node("tools", ToolNode(tools))
        graph.add_conditional_edges("model", tools_condition)
        graph.add_edge("tools", "model")
    return graph.compile(checkpointer)


def answer(calls):
    message = AIMessage(content="" if calls else "done", tool_calls=calls)
    return ChatResult(generations=[ChatGeneration(message=message)])


def call(number):
    return ToolCall(name="add", args={"a": number, "b": 1}, id=f"c{number}")


def tool(tally):
    @as_tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(LangGraph())
