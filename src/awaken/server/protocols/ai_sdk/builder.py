"""Builds a message of the page from chunks, as the client does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from awaken.codec import Json

Part = dict[str, Any]
Chunk = dict[str, Any]

_EXTRA_FIELDS = ("providerExecuted",)


class MessageBuilder:
    """The message of one run. Chunks that show nothing are ignored."""

    def __init__(self) -> None:
        self.id = ""
        self.metadata: dict[str, Json] = {}
        self.parts: list[Part] = []
        self._open: dict[str, Part] = {}
        self._handlers: dict[str, Callable[[Chunk], None]] = {
            "start": self._start,
            "finish": self._add_metadata,
            "message-metadata": self._add_metadata,
            "start-step": self._start_step,
            "reset-step": self._reset_step,
            "text-start": self._start_block,
            "text-delta": self._add_to_block,
            "text-end": self._end_block,
            "reasoning-start": self._start_block,
            "reasoning-delta": self._add_to_block,
            "reasoning-end": self._end_block,
            "tool-input-start": self._start_call,
            "tool-input-available": self._call,
            "tool-input-error": self._call_error,
            "tool-approval-request": self._ask,
            "tool-approval-response": self._answer,
            "tool-output-available": self._output,
            "tool-output-error": self._output_error,
            "tool-output-denied": self._output_denied,
        }

    def apply(self, chunk: Chunk) -> None:
        handler = self._handlers.get(chunk["type"])
        if handler is not None:
            handler(chunk)
        elif chunk["type"].startswith("data-") and not chunk.get("transient"):
            self._data(chunk)

    def message(self) -> Json:
        """The message as JSON."""
        return {
            "id": self.id,
            "role": "assistant",
            "metadata": self.metadata,
            "parts": self.parts,
        }

    def _start(self, chunk: Chunk) -> None:
        self.id = chunk["messageId"]
        self._add_metadata(chunk)

    def _add_metadata(self, chunk: Chunk) -> None:
        self.metadata = {**self.metadata, **chunk.get("messageMetadata", {})}

    # -- steps --------------------------------------------------------------------------------

    def _start_step(self, chunk: Chunk) -> None:
        self.parts.append({"type": "step-start"})

    def _reset_step(self, chunk: Chunk) -> None:
        del self.parts[self._step_begin() :]
        self._open = {}

    def _step_begin(self) -> int:
        borders = [index for index, part in enumerate(self.parts) if part["type"] == "step-start"]
        return borders[-1] + 1 if borders else 0

    # -- blocks -------------------------------------------------------------------------------

    def _start_block(self, chunk: Chunk) -> None:
        kind = chunk["type"].removesuffix("-start")
        part = self._open[chunk["id"]] = {"type": kind, "text": "", "state": "streaming"}
        self.parts.append(part)

    def _add_to_block(self, chunk: Chunk) -> None:
        self._open[chunk["id"]]["text"] += chunk["delta"]

    def _end_block(self, chunk: Chunk) -> None:
        self._open.pop(chunk["id"])["state"] = "done"

    # -- calls --------------------------------------------------------------------------------

    def _start_call(self, chunk: Chunk) -> None:
        self._find_or_add(chunk)["state"] = "input-streaming"

    def _call(self, chunk: Chunk) -> None:
        self._find_or_add(chunk).update(state="input-available", input=chunk["input"])

    def _call_error(self, chunk: Chunk) -> None:
        self._find_or_add(chunk).update(state="output-error", errorText=chunk["errorText"])

    def _find_or_add(self, chunk: Chunk) -> Part:
        """The call's part in the current step; a new one if it is not there."""
        for part in self.parts[self._step_begin() :]:
            if part.get("toolCallId") == chunk["toolCallId"]:
                return part
        name = chunk["toolName"]
        kind = {"type": f"tool-{name}"}
        if chunk.get("dynamic"):
            kind = {"type": "dynamic-tool", "toolName": name}
        part = {**kind, "toolCallId": chunk["toolCallId"], **_extra_fields(chunk)}
        self.parts.append(part)
        return part

    def _find(self, chunk: Chunk) -> Part:
        """The call's latest part; an empty one that is not shown, if there is none."""
        for part in reversed(self.parts):
            if part.get("toolCallId") == chunk["toolCallId"]:
                return part
        return {}

    def _ask(self, chunk: Chunk) -> None:
        self._find(chunk).update(state="approval-requested", approval={"id": chunk["approvalId"]})

    def _answer(self, chunk: Chunk) -> None:
        for part in self.parts:
            if part.get("approval", {}).get("id") == chunk["approvalId"]:
                given = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
                part.update(state="approval-responded", approval=part["approval"] | given)

    def _output(self, chunk: Chunk) -> None:
        part = self._find(chunk)
        part.update(state="output-available", output=chunk["output"], **_extra_fields(chunk))
        part.pop("preliminary", None)
        if chunk.get("preliminary"):
            part["preliminary"] = True

    def _output_error(self, chunk: Chunk) -> None:
        error = {"errorText": chunk["errorText"], **_extra_fields(chunk)}
        self._find(chunk).update(state="output-error", **error)

    def _output_denied(self, chunk: Chunk) -> None:
        self._find(chunk)["state"] = "output-denied"

    # -- data ---------------------------------------------------------------------------------

    def _data(self, chunk: Chunk) -> None:
        for part in self.parts:
            if part["type"] == chunk["type"] and part.get("id") == chunk.get("id"):
                part["data"] = chunk["data"]
                return
        self.parts.append(dict(chunk))


def _extra_fields(chunk: Chunk) -> Part:
    return {name: chunk[name] for name in _EXTRA_FIELDS if name in chunk}
