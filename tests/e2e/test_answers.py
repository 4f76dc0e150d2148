"""Long answers: none waits for the network's timers, for itself, or for a client that has gone; others are served meanwhile."""

import json
import sys
from pathlib import Path

import pytest

import conftest
from harness.netns import CannotMake, Namespace
from harness.server import Server

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import answers  # noqa: E402


@pytest.mark.parametrize("memory", ["16MB", "64MB"])
def test_no_answer_waits_for_delayed_confirmations(tmp_path, memory):
    """A receiver confirms two segments at once, and one after 40 ms: a socket buffer must hold several."""
    if conftest.SELF:
        pytest.skip("needs a server")
    try:
        space = Namespace()
    except CannotMake as reason:
        pytest.skip(f"no network namespace can be made here: {reason}")
    with space:
        server = Server(tmp_path / "data", memory=memory)
        space.run(server.start)
        try:
            space.run(lambda: answers.fill(server.http(), 150, answers.POINT_BYTES))
            for api, port in (("rest", server.port), ("grpc", server.grpc_port)):
                done = space.run(answers.run_client, api, "127.0.0.1", port, 3, [83, 150])
                assert done.returncode == 0, done.stderr
                for row in map(json.loads, done.stdout.splitlines()):
                    assert row["delayed"] <= 1, (api, row)
        finally:
            space.run(server.stop)
