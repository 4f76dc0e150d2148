"""Hundreds of collections in a budget that has room for a few dozen at once, in a cgroup of exactly that size."""

import pytest

import conftest
from harness.cgroup import CannotMake, MemoryCgroup
from harness.crowd import Crowd
from harness.server import Server

pytestmark = pytest.mark.alone


@pytest.fixture(params=[16_000_000, 24_000_000])
def limited(tmp_path, request):
    if conftest.SELF:
        pytest.skip("needs a server")
    try:
        group = MemoryCgroup(request.param)
    except CannotMake as reason:
        pytest.skip(f"no memory cgroup can be made here: {reason}")
    with group, Server(tmp_path / "data", memory=None, cgroup=group) as server:
        yield server, group


def test_collections_that_nobody_uses_are_not_in_ram(limited):
    server, group = limited
    crowd = Crowd(server, 300)
    crowd.create()
    crowd.work(clients=4, operations=100)
    crowd.check()
    unloaded = crowd.metric("ramlet_collections_unloaded")
    assert unloaded > 150
    # What only looks loads nothing.
    http = server.http()
    for path in ("/collections", "/aliases", "/telemetry?details_level=4", "/issues", "/metrics", "/memory"):
        assert http.raw("GET", path)[0] == 200
    for n in range(0, 300, 10):
        assert crowd.ask(http, "GET", f"/collections/tenant-{n:06}/exists") == {"exists": True}
        crowd.ask(http, "GET", f"/collections/tenant-{n:06}/aliases")
    assert crowd.metric("ramlet_collections_unloaded") == unloaded
    server.restart()
    crowd.check()
    crowd.killed()
    crowd.check()
    # Those that nobody asks for are opened too, so that damage is found.
    assert crowd.metric("ramlet_collections_unseen") == 0
    assert group.oom_kills() == 0
    assert server.alive()
    server.stop()
    code, said = server.check()
    assert code == 0, said
