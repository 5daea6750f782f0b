"""One run in an AG-UI stream: its open step, answer and calls.

Each method returns the chunks for one event. What a chunk opens is closed again before the run
ends, and is never opened twice: clients check this, and refuse the stream otherwise.
"""

from __future__ import annotations

from typing import Any

import msgspec

from awaken.codec import Json, dumps_text, loads
from awaken.core.event import StepSnapshot
from awaken.server.protocols.ag_ui.messages import (
    assistant_message,
    reasoning_id,
    reasoning_message,
    tool_message,
)
from awaken.server.protocols.ag_ui.transcript import ClientTranscript

Chunk = dict[str, Any]


class RunBranch:
    """The chunks of one run in a stream.

    `tag` is the id under which the client knows a subagent; `None` for the run that the client
    asked for. `message_id` is the id of the step's answer.
    """

    def __init__(self, transcript: ClientTranscript, tag: str | None) -> None:
        self.tag = tag
        self.message_id: str | None = None
        self._transcript = transcript
        self._steps = 0
        self._in_step = self._in_text = self._in_reasoning = False
        self._open_calls: set[str] = set()

    def chunk(self, type_: str, **fields: Json) -> Chunk:
        """A chunk, attributed to the subagent if this is one."""
        chunk: Chunk = {"type": type_, **fields}
        if self.tag is not None:
            chunk["subagentRunId"] = self.tag
        return chunk

    # -- steps --------------------------------------------------------------------------------

    def start_step(self, message_id: str) -> list[Chunk]:
        """A step begins, or its answer continues in another message."""
        chunks = self.close_answer()
        self.message_id = message_id
        if not self._in_step:
            self._in_step = True
            self._steps += 1
            chunks.append(self.chunk("STEP_STARTED", stepName=self._step_name))
        return chunks

    def end_step(self) -> list[Chunk]:
        chunks = self.close_answer()
        if self._in_step:
            self._in_step = False
            chunks.append(self.chunk("STEP_FINISHED", stepName=self._step_name))
        self.message_id = None
        return chunks

    @property
    def _step_name(self) -> str:
        return f"step_{self._steps}"

    # -- the answer ---------------------------------------------------------------------------

    def write_text(self, delta: str) -> list[Chunk]:
        if self.message_id is None or not delta:
            return []
        chunks = self._start_text(self.message_id) if not self._in_text else []
        self._transcript.write(self.message_id, delta)
        chunks.append(self.chunk("TEXT_MESSAGE_CONTENT", messageId=self.message_id, delta=delta))
        return chunks

    def _start_text(self, id: str) -> list[Chunk]:
        chunks = self._close_reasoning()
        self._transcript.add(self._add_tag(assistant_message(id)))
        self._in_text = True
        return [*chunks, self.chunk("TEXT_MESSAGE_START", messageId=id, role="assistant")]

    def write_reasoning(self, delta: str) -> list[Chunk]:
        if self.message_id is None or not delta:
            return []
        id = reasoning_id(self.message_id)
        chunks = self._start_reasoning(self.message_id) if not self._in_reasoning else []
        self._transcript.write(id, delta)
        chunks.append(self.chunk("REASONING_MESSAGE_CONTENT", messageId=id, delta=delta))
        return chunks

    def _start_reasoning(self, answer_id: str) -> list[Chunk]:
        id = reasoning_id(answer_id)
        chunks = self._close_text()
        self._transcript.add(self._add_tag(reasoning_message(answer_id)))
        self._in_reasoning = True
        return [
            *chunks,
            self.chunk("REASONING_START", messageId=id),
            self.chunk("REASONING_MESSAGE_START", messageId=id, role="reasoning"),
        ]

    def write_encrypted(self, value: str) -> list[Chunk]:
        """Reasoning that only the provider can read."""
        if self.message_id is None or not self._transcript.has(reasoning_id(self.message_id)):
            return []
        entity = {"subtype": "message", "entityId": reasoning_id(self.message_id)}
        return [self.chunk("REASONING_ENCRYPTED_VALUE", **entity, encryptedValue=value)]

    def _add_tag(self, message: dict[str, Any]) -> dict[str, Any]:
        if self.tag is not None:
            message["subagentRunId"] = self.tag
        return message

    # -- calls --------------------------------------------------------------------------------

    def start_call(self, id: str, name: str) -> list[Chunk]:
        if self.message_id is None or self._transcript.has_call(id):
            return []
        chunks = [*self._close_text(), *self._close_reasoning()]
        self._transcript.add(self._add_tag(assistant_message(self.message_id)))
        self._transcript.add_call(self.message_id, id, name)
        self._open_calls.add(id)
        fields = {"toolCallId": id, "toolCallName": name, "parentMessageId": self.message_id}
        return [*chunks, self.chunk("TOOL_CALL_START", **fields)]

    def write_arguments(self, id: str, delta: str) -> list[Chunk]:
        if id not in self._open_calls or not delta:
            return []
        self._transcript.write_arguments(id, delta)
        return [self.chunk("TOOL_CALL_ARGS", toolCallId=id, delta=delta)]

    def finish_call(self, id: str, name: str, arguments: Json) -> list[Chunk]:
        """A call is complete: the client gets the arguments that it does not have yet."""
        chunks = self.start_call(id, name)
        if id not in self._open_calls:
            return chunks
        written, whole = self._transcript.arguments(id), dumps_text(arguments)
        if whole.startswith(written):
            chunks += self.write_arguments(id, whole[len(written) :])
        chunks += self._close_call(id)
        if not _is_same(self._transcript.arguments(id), arguments):
            self._transcript.set_arguments(id, whole)
            chunks.append(self.snapshot())
        return chunks

    def edit_call(self, id: str, arguments: Json) -> list[Chunk]:
        """A call runs with other arguments than those that were written."""
        if not self._transcript.has_call(id) or _is_same(self._transcript.arguments(id), arguments):
            return []
        self._transcript.set_arguments(id, dumps_text(arguments))
        return [self.snapshot()]

    def drop_call(self, id: str) -> list[Chunk]:
        """A call that has started is not made."""
        if not self._transcript.has_call(id):
            return []
        chunks = self._close_call(id)
        self._transcript.drop_call(id)
        return [*chunks, self.snapshot()]

    def answer_call(self, message_id: str, call_id: str, text: str) -> list[Chunk]:
        """A call has a result."""
        if self._transcript.has(message_id):
            return []
        chunks = self._close_call(call_id)
        self._transcript.add(self._add_tag(tool_message(message_id, call_id, text)))
        fields = {"messageId": message_id, "toolCallId": call_id, "content": text, "role": "tool"}
        return [*chunks, self.chunk("TOOL_CALL_RESULT", **fields)]

    # -- sending again ------------------------------------------------------------------------

    def reset(self) -> list[Chunk]:
        """Take back what the client has of an answer that is not in the log."""
        chunks = self.close_answer()
        id = self.message_id
        if id is None or id in self._transcript.logged:
            return chunks
        had = self._transcript.has(id) or self._transcript.has(reasoning_id(id))
        self._transcript.drop(id)
        if self._transcript.has(reasoning_id(id)):
            # Empty, not gone: a client keeps its reasoning if a snapshot has none at all.
            self._transcript.clear(reasoning_id(id))
        return [*chunks, self.snapshot()] if had else chunks

    def show(self, whole: StepSnapshot) -> list[Chunk]:
        """Send the parts of a whole answer that the client does not have."""
        chunks = [] if self.message_id == whole.message_id else self.close_answer()
        self.message_id = whole.message_id
        if not self._is_beginning(whole):
            chunks += self.reset()
        id = whole.message_id
        chunks += self.write_reasoning(whole.reasoning[len(self._text_of(reasoning_id(id))) :])
        chunks += self.write_text(whole.text[len(self._text_of(id)) :])
        for call_id, name, written in whole.calls:
            chunks += self.start_call(call_id, name)
            if call_id in self._open_calls:
                had = self._transcript.arguments(call_id)
                chunks += self.write_arguments(call_id, written[len(had) :])
        return chunks

    def _is_beginning(self, whole: StepSnapshot) -> bool:
        """Whether the whole answer begins with what the client has of it."""
        return (
            whole.text.startswith(self._text_of(whole.message_id))
            and whole.reasoning.startswith(self._text_of(reasoning_id(whole.message_id)))
            and all(
                written.startswith(self._transcript.arguments(id))
                for id, _, written in whole.calls
                if id in self._open_calls
            )
        )

    def _text_of(self, id: str) -> str:
        return self._transcript.text(id) if self._transcript.has(id) else ""

    def snapshot(self) -> Chunk:
        """A snapshot of all messages that the client should have, of the whole conversation."""
        return {"type": "MESSAGES_SNAPSHOT", "messages": self._transcript.all()}

    # -- closing ------------------------------------------------------------------------------

    def mark_logged(self) -> None:
        """The answer is in the thread's log: it cannot be taken back any more."""
        if self.message_id is not None:
            self._transcript.logged.add(self.message_id)

    def close_answer(self) -> list[Chunk]:
        chunks = [*self._close_text(), *self._close_reasoning()]
        for id in sorted(self._open_calls):
            chunks += self._close_call(id)
        return chunks

    def _close_text(self) -> list[Chunk]:
        if not self._in_text:
            return []
        self._in_text = False
        return [self.chunk("TEXT_MESSAGE_END", messageId=self.message_id)]

    def _close_reasoning(self) -> list[Chunk]:
        if not self._in_reasoning or self.message_id is None:
            return []
        self._in_reasoning = False
        id = reasoning_id(self.message_id)
        return [
            self.chunk("REASONING_MESSAGE_END", messageId=id),
            self.chunk("REASONING_END", messageId=id),
        ]

    def _close_call(self, id: str) -> list[Chunk]:
        if id not in self._open_calls:
            return []
        self._open_calls.discard(id)
        return [self.chunk("TOOL_CALL_END", toolCallId=id)]


def _is_same(written: str, arguments: Json) -> bool:
    try:
        return bool(loads(written or "{}") == loads(dumps_text(arguments)))
    except msgspec.DecodeError:
        return False
