"""Clients that are generated from the OpenAPI document, with what teams use for it."""

from __future__ import annotations

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from edge_kit import payer, talker
from server_kit import served

from awaken import Runtime
from awaken.server import app
from awaken.server.openapi import document
from awaken.server.routes import ROUTES
from browser_kit import KIT, NODE

pytestmark = pytest.mark.anyio
GENERATED = KIT / "openapi"
NAMES = [route.name for route in ROUTES]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("described") / "openapi.json"
    path.write_text(json.dumps(document(ROUTES)))
    return path


@pytest.fixture(scope="module")
def functions(described: Path) -> Any:
    """The functions that openapi-python-client generates, by their names."""
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    settings = described.with_name("settings.yml")
    settings.write_text("post_hooks: []\n")
    made = described.with_name("awaken_generated")
    where = ["--path", str(described), "--config", str(settings), "--output-path", str(made)]
    told = subprocess.run([*command, *where], capture_output=True, text=True, timeout=550)
    assert told.returncode == 0, told.stdout
    assert "WARNING" not in told.stdout.upper(), told.stdout
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made.parent))
        yield lambda name: importlib.import_module(f"awaken_generated.{name}")


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.isidentifier() and name == name.lower() for name in NAMES)


def _run_an_agent(client: Any, functions: Any) -> None:
    models: ModuleType = functions("models")

    def api(name: str) -> Any:
        return functions(f"api.default.{name}")

    for name in NAMES:
        api(name)
    listed = api("list_agents").sync(client=client)
    assert sorted(agent.id for agent in listed.items) == ["payer", "talker"]
    asked = models.RunAsked(agent_id="payer", messages=["Pay 5"])
    run = api("submit_thread_run").sync(thread="t", client=client, body=asked, wait=60)
    assert (type(run).__name__, len(run.tickets)) == ("ResultView", 1)
    (ticket,) = api("list_tickets").sync(client=client).items
    yes = [
        models.DecisionGiven.from_dict(
            {"ticket": ticket.key, "action": "approve", "digest": ticket.digest}
        )
    ]
    api("answer_tickets").sync_detailed(ticket.run_id, client=client, body=yes)
    refused = api("get_run").sync_detailed("none", client=client)
    assert (int(refused.status_code), refused.parsed.error.code) == (404, "not_found")


async def test_a_generated_python_client_runs_an_agent(functions: Any) -> None:
    def call(address: str) -> None:
        with functions("client").Client(base_url=address) as client:
            _run_an_agent(client, functions)

    async with Runtime([payer(), talker()]) as runtime, served(app(runtime)) as address:
        await asyncio.to_thread(call, address)
        (thread,) = await runtime.list_threads()
        assert thread.id == "t"


@pytest.fixture(scope="module")
def built(described: Path) -> Path:
    """The folder of a TypeScript client, with the types that openapi-typescript generates."""
    folder = described.with_name("client")
    folder.mkdir()
    (folder / "client.ts").write_text((GENERATED / "client.ts").read_text())
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(GENERATED / "node_modules")
    tools = GENERATED / "node_modules"
    generate = [tools / "openapi-typescript" / "bin" / "cli.js", described, "-o", "api.ts"]
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"]
    build = [tools / "typescript" / "bin" / "tsc", *options, "client.ts", "api.ts"]
    commands: tuple[list[object], ...] = (generate, build)
    for command in commands:
        told = subprocess.run(
            [str(NODE), *map(str, command)], cwd=folder, capture_output=True, text=True
        )
        assert told.returncode == 0, told.stdout + told.stderr
    return folder


async def test_a_generated_typescript_client_runs_an_agent(built: Path) -> None:
    async with Runtime([payer(), talker()]) as runtime, served(app(runtime)) as address:
        process = await asyncio.create_subprocess_exec(
            NODE, "client.js", address, cwd=built, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert json.loads(out) == {
        "agents": ["payer", "talker"],
        "run": 200,
        "decided": 200,
        "unknown": "not_found",
    }
