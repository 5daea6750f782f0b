"""Large media in threads of agents elsewhere (06 §2.10)."""

from __future__ import annotations

import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from far_kit import Far, FarBackend, can, far_agent, says

from awaken import Agent, Message, Runtime
from awaken.backend import BackendTranscriptCapability
from awaken.core.message import Base64Source, BlobSource, Image, Text
from awaken.testing import ScriptedModel

pytestmark = pytest.mark.anyio

PICTURE = Image(
    source=Base64Source(media_type="image/png", data=b64encode(os.urandom(2_000_000)).decode())
)


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'a.db'}"


async def test_a_picture_for_an_agent_elsewhere_is_kept_as_a_blob_and_sent_whole(
    store: str,
) -> None:
    """A local agent that is asked in the same thread sees it, too."""
    shown = Message.user_with_content((Text(text="look"), PICTURE))
    whole = can(transcript=BackendTranscriptCapability.FULL_TRANSCRIPT)
    backend = FarBackend(says("a cat"), says("still"), can=whole)
    model = ScriptedModel(["so it is"])
    near = Agent("near", model=model)
    async with Runtime([far_agent(), near], store=store, backends=[Far(backend)]) as runtime:
        await runtime.run("far", shown, thread="t")
        kept = (await runtime.messages("t"))[0].content[1]
        await runtime.run("near", "is it?", thread="t")
        await runtime.run("far", "sure?", thread="t")

    assert isinstance(kept, Image)
    assert isinstance(kept.source, BlobSource)
    assert backend.requests[0].new_messages[0].content == shown.content
    assert model.requests[0].messages[0].content == shown.content
    assert backend.requests[1].messages[0].content == shown.content
