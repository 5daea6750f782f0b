"""`awaken serve --bus`: what a server says of its bus, at the start and later."""

from __future__ import annotations

import sys
from pathlib import Path

from nats_kit import open_server

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from stream_kit import Client, ask, failed_start, serving


def test_a_server_works_and_is_ready_while_its_bus_is_away(tmp_path: Path) -> None:
    """It says so, and says when the bus is there."""
    with open_server() as nats:
        nats.stop()
        bus = nats.address().replace("//", "//me:hunter2@")
        with serving(tmp_path / "f.db", "--bus", bus) as server:
            status, ready = ask(server.address, "GET", "/health/ready")
            assert (status, ready["bus"]) == (200, "away")
            assert "\nawaken_bus_up 0\n" in ask(server.address, "GET", "/metrics")[1]
            client = Client()
            client.submit(server.address)
            client.follow(server.address)
            assert client.is_suspended, "the agent asks for an approval"
            nats.start()
            while ask(server.address, "GET", "/health/ready")[1].get("bus") != "ok":
                pass  # a busy server may also say that it is not ready yet
            assert "\nawaken_bus_up 1\n" in ask(server.address, "GET", "/metrics")[1]
            assert "# TYPE awaken_bus_lost_total " in ask(server.address, "GET", "/metrics")[1]
    said = (tmp_path / "f.log").read_text()
    assert "is away" in said
    assert "is back" in said
    assert "hunter2" not in said


def test_a_bus_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from awaken import Agent, Runtime\n"
        "agents = [Agent('a', model='demo')]\n"
        "runtime = Runtime(agents)\n"
    )
    for words, told in (
        (["app.py:agents", "--bus", "redis://me:hunter2@host"], "write 'nats://host:4222'"),
        (["app.py:agents", "--bus", "nats://me:hunter2@host:x"], "the port is not a number"),
        (["app.py:runtime", "--bus", "nats://me:hunter2@host"], "which --bus cannot change"),
    ):
        code, said = failed_start(tmp_path, *words)
        assert code in (1, 2)
        assert told in said, said
        assert "hunter2" not in said
        assert "Traceback" not in said
