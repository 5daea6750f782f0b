"""The built-in tool `read_result`: the rest of a tool result that was too large for the log."""

from __future__ import annotations

import codecs
from typing import Any

from awaken.codec import Json
from awaken.core.blobs import ByteRange, RunBlobs, read_bytes
from awaken.core.schema import as_object, check_arguments
from awaken.core.tool import ToolDescriptor, ToolEffect, ToolError, ToolKind, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import BlobRangeBeyondEnd, StoreError

READ_RESULT = "read_result"
USUAL_LENGTH = 16 * 1024
LONGEST_CHARACTER = 4
"""How many bytes a character has at most; less is never read, so that every call gets on."""
_NOTE = 256
"""More bytes than the note about the place in the result takes."""

_DESCRIPTOR = ToolDescriptor(
    id=READ_RESULT,
    name=READ_RESULT,
    description=(
        "Read on in a tool result that was too long to be shown whole. The shown beginning of the "
        "result names its id and the offset of the first byte that was left out."
    ),
    parameters={
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the result."},
            "offset": {
                "type": "integer",
                "minimum": 0,
                "description": "The first byte to read. 0 if left out.",
            },
            "length": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many bytes to read at most. {USUAL_LENGTH} if left out.",
            },
        },
        "required": ["id"],
        "additionalProperties": False,
    },
    kind=ToolKind.READ,
)


class ReadResult:
    """Reads results that the run's own thread has kept; those of other threads are not found."""

    traits = ToolTraits(effect=ToolEffect.READ)

    def __init__(self, keep: RunBlobs) -> None:
        self._keep = keep

    def descriptor(self) -> ToolDescriptor:
        return _DESCRIPTOR

    def validate_args(self, args: Json) -> Json:
        """The arguments as they are.

        Raises:
            ToolError: they do not fit the schema.
        """
        given = as_object(args)
        check_arguments(_DESCRIPTOR, given)
        return given

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        """A part of the result, and where the next one begins.

        Raises:
            ToolError: the thread has no such result, it cannot be read, or it ends before `offset`.
        """
        id, start = args["id"], args.get("offset", 0)
        # The answer itself must not become a blob.
        limit = self._keep.max_inline_result - _NOTE
        stop = start + min(max(args.get("length", USUAL_LENGTH), LONGEST_CHARACTER), limit)
        try:
            text, stop, size = await self._read(ctx.run_identity.thread_id, id, start, stop)
        except BlobRangeBeyondEnd as error:
            raise ToolError.invalid_arguments(str(error)) from error
        except StoreError as error:
            raise ToolError.execution_failed(str(error)) from error
        rest = f"read on with offset={stop}" if stop < size else "this is its end"
        place = {"offset": start, "next_offset": stop, "size": size}
        note = f"\n[bytes {start} to {stop} of {size}; {rest}]"
        return ToolOutput(ToolResult.success_with_message(READ_RESULT, place, text + note))

    async def _read(self, thread_id: str, id: str, start: int, stop: int) -> tuple[str, int, int]:
        """The characters that are whole within a range of bytes, where they end, and the size."""
        if not await self._keep.uses.filter_used_blobs([id], thread_id=thread_id):
            raise ToolError.not_found(f"this conversation has no result with the id {id!r}")
        wanted = ByteRange(start=start, stop=stop)
        blob, part = await read_bytes(self._keep.blobs, self._keep.scope, id, wanted)
        text, read = _whole_characters(part)
        return text, start + read, blob.size


def _whole_characters(part: bytes) -> tuple[str, int]:
    """The text of a part of UTF-8, and how many bytes it takes; a character that was cut off at the
    end is left for the next part. What is no UTF-8 becomes U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(part)
    cut_off, _ = decoder.getstate()
    if text:
        return text, len(part) - len(cut_off)
    return decoder.decode(b"", final=True), len(part)
