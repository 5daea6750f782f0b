"""What a client of a protocol may bring: the result of its own tool, and its state."""

from __future__ import annotations

import msgspec

from awaken import Agent, Runtime, ToolDescriptor
from awaken.core.event import ToolCallResumed
from awaken.core.identity import Adapter
from awaken.core.message import Role
from awaken.core.state.key import StateKey
from awaken.core.suspension import ToolCallResume
from awaken.plugin.registrar import Registrar
from awaken.testing import ScriptedModel, tool_call_response

T = "t"
COLORS: StateKey[list[str], list[str]] = StateKey("colors", initial=list, public=True)
SECRET: StateKey[str, str] = StateKey("secret", initial=str)


class Keys:
    """Brings one key that clients see, and one that they do not."""

    id = "keys"

    def register(self, registrar: Registrar) -> None:
        registrar.key(COLORS)
        registrar.key(SECRET)


async def test_a_clients_own_result_is_logged_as_the_client_has_it() -> None:
    picker = ToolDescriptor(id="pick", name="pick", description="Let the user pick a color.")
    model = ScriptedModel([tool_call_response("", "pick", "c1", {}), "Blue it is."])
    async with Runtime([Agent("helper", model=model)]) as runtime:
        asked = await runtime.run("helper", "Which color?", thread=T, frontend_tools=[picker])
        answer = msgspec.structs.replace(ToolCallResume.approve("blue"), message_id="mine")
        await runtime.submit(thread=T, answers={asked.tickets[0]: answer})
        await runtime.wait(asked.run_id)
        events = [told.event async for told in runtime.events(T, follow=False)]
        logged = next(m for m in await runtime.messages(T) if m.role is Role.TOOL)
    (resumed,) = [event for event in events if isinstance(event, ToolCallResumed)]
    assert (logged.id, logged.text()) == ("mine", "blue")
    assert (resumed.message_id, resumed.text) == ("mine", "blue")


async def test_a_run_starts_with_the_clients_values_of_public_keys() -> None:
    agent = Agent("helper", model=ScriptedModel(["Yes."]), plugins=[Keys()])
    async with Runtime([agent]) as runtime:
        asked = {"colors": ["red"], "secret": "stolen", "draft": "the client's own"}
        taken = await runtime.submit("helper", "Hello", thread=T, state=asked)
        await runtime.wait(taken.run_id)
        assert await runtime.state(T, COLORS) == ["red"]
        assert await runtime.state(T, SECRET) == ""


async def test_a_value_that_does_not_fit_its_key_is_left_out() -> None:
    agent = Agent("helper", model=ScriptedModel(["Yes."]), plugins=[Keys()])
    async with Runtime([agent]) as runtime:
        taken = await runtime.submit("helper", "Hello", thread=T, state={"colors": 7})
        assert (await runtime.wait(taken.run_id)).response == "Yes."
        assert await runtime.state(T, COLORS) == []


async def test_the_record_keeps_what_the_client_says_of_its_request() -> None:
    async with Runtime([Agent("helper", model=ScriptedModel(["Yes."]))]) as runtime:
        taken = await runtime.submit(
            *("helper", "Hi"),
            adapter=Adapter.AG_UI,
            request_id="client-1",
            forwarded_props={"page": "checkout"},
        )
        await runtime.wait(taken.run_id)
        record = await runtime.find_run(taken.run_id)
    assert record is not None
    assert record.transport_request_id == "client-1"
    assert record.request is not None
    assert record.request.request_extras == {"forwarded_props": {"page": "checkout"}}
