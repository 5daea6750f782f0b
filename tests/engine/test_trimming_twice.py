"""What was cut or summarised once is not cut or summarised again by looking again (02/X2)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from awaken import Message, ToolCall
from awaken.core.transcript import effective_view
from awaken.core.window import truncate
from awaken.engine.transcript import LiveTranscript
from awaken.ext.compaction.plan import summary_message


def messages_of(kinds: list[str]) -> list[Message]:
    made: list[Message] = []
    for number, kind in enumerate(kinds):
        if kind.startswith("calls"):
            calls = [ToolCall(id=f"c{n}", name="t", arguments={}) for n in range(int(kind[-1]))]
            made.append(Message.assistant_with_tool_calls("", calls))
            made += [Message.tool(call.id, f"{number} " * 900) for call in calls]
        elif kind == "user":
            made.append(Message.user(f"{number} " * 90))
        else:
            made.append(Message.assistant(f"{number} " * 90))
    return made


KINDS = st.lists(st.sampled_from(["user", "assistant", "calls1", "calls2"]), max_size=25)


@given(KINDS, st.integers(0, 4000), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_truncating_twice_is_truncating_once(kinds: list[str], room: int, at_least: int) -> None:
    """02/X2: trimming is idempotent."""
    once = truncate([Message.system("s"), *messages_of(kinds)], room, at_least)

    assert truncate(once, room, at_least) == once


@given(KINDS.filter(bool), st.data())
@settings(max_examples=100, deadline=None)
def test_summarising_up_to_a_message_twice_is_doing_it_once(
    kinds: list[str], data: st.DataObject
) -> None:
    """02/X2: trimming is idempotent; 02/7.3: a boundary that is gone changes nothing."""
    log = messages_of(kinds)
    view = effective_view(log)
    ends = [m for m, after in zip(view, [*view[1:], None], strict=True) if not _follows(after)]
    boundary = data.draw(st.sampled_from(ends)).id
    assert boundary is not None
    live = LiveTranscript(view, (), log, len(log))
    assert live.fold(boundary, summary_message("once", "s1")) is not None
    raw, shown = [*log, *live.take_pending()], list(live.view())

    again = live.fold(boundary, summary_message("twice", "s2"))

    assert again is None
    assert list(live.take_pending()) == []
    assert list(live.view()) == shown == effective_view(raw)


def _follows(message: Message | None) -> bool:
    """Whether it belongs to the message before it."""
    return message is not None and message.tool_call_id is not None
