"""File descriptors: the limit is raised as far as it may be, and what was accepted under one opens again under it."""

import json
import resource
from pathlib import Path

import pytest

from harness.server import Server


class Limit:
    """Takes the place of a cgroup: something that a new server's process enters."""

    def __init__(self, soft, hard):
        self.limits = (soft, hard)

    def enter(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)


@pytest.fixture
def start(tmp_path):
    servers = []

    def start(soft, hard):
        servers.append(Server(tmp_path / "data", memory="64MB", cgroup=Limit(soft, hard)).start())
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


def limits_of(server):
    lines = Path(f"/proc/{server.process.pid}/limits").read_text().splitlines()
    soft, hard = next(line for line in lines if line.startswith("Max open files")).split()[3:5]
    return int(soft), int(hard)


def open_files(server):
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def ask(http, method, path, body=None):
    status, _, answer = http.raw(method, path, json.dumps(body) if body else None)
    return status, json.loads(answer)


def put(http, name, value):
    points = [{"id": i, "vector": {"a": [i, value], "b": [value, i]}} for i in range(20)]
    return ask(http, "PUT", f"/collections/{name}/points?wait=true", {"points": points})[0]


def test_too_few_are_told_at_the_start(start, tmp_path):
    """Not by connections that nobody takes."""
    with pytest.raises(RuntimeError, match="32 file descriptors are allowed, a server needs 64 at least"):
        start(32, 32)
    assert not (tmp_path / "data").exists()
    assert start(64, 64).http().result("GET", "/collections")["collections"] == []


def test_the_limit_is_raised_and_both_are_told(start):
    server = start(256, 3000)
    assert limits_of(server) == (3000, 3000)
    assert "3000" in server.log() and "256" in server.log()


def test_what_was_accepted_opens_again(start):
    server = start(300, 300)
    http = server.http()
    vectors = {name: {"size": 2, "distance": "Dot"} for name in "ab"}
    made = [f"c{i}" for i in range(200)]
    for name in made:
        status, said = ask(http, "PUT", f"/collections/{name}", {"vectors": vectors})
        assert status == 200, said
        assert put(http, name, 1) == 200
    # Those that nobody uses have made way.
    assert open_files(server) <= 200
    assert all(put(http, name, 2) == 200 for name in made), "those that are there go on"
    server.restart(kill=True)
    http = server.http()
    assert open_files(server) <= 200
    for name in made:
        status, answer = ask(http, "POST", f"/collections/{name}/points/count", {"exact": True})
        assert (status, answer["result"]["count"]) == (200, 20)
    assert ask(http, "DELETE", f"/collections/{made[0]}")[0] == 200
    assert ask(http, "PUT", "/collections/again", {"vectors": vectors})[0] == 200
