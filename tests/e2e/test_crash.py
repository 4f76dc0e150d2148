"""The oracle of crashes must be able to fail; and a few cycles of the rigs that crash the server. RAMLET_KILL_CYCLES makes it more of them."""

import os
import random
import sys
from pathlib import Path

import pytest

import compare
import conftest
from harness import disk, history

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

import kill  # noqa: E402
import power_loss  # noqa: E402

needs_server = pytest.mark.skipif(conftest.SELF, reason="needs a server")


def writer(known, pending=None, journal=()):
    made = history.Writer(0, seed=1)
    made.known, made.pending, made.journal = dict(known), dict(pending or {}), list(journal)
    return made


A, B, C = (5, None, 5), (6, None, 6), (7, None, 7)


@pytest.mark.parametrize(
    "known, pending, found, violations",
    [
        ({1: A}, {}, {1: A}, 0),
        ({1: A}, {}, {}, 1),  # an acknowledged upsert is lost
        ({1: B}, {}, {1: A}, 1),  # an older version is back
        ({1: None}, {}, {1: A}, 1),  # an acknowledged delete is undone
        ({1: A}, {1: B}, {1: A}, 0),  # in flight: not done
        ({1: A}, {1: B}, {1: B}, 0),  # in flight: done
        ({1: A}, {1: B}, {1: C}, 1),  # neither
        ({1: A}, {1: None}, {}, 0),  # a delete in flight: done
        ({1: (5, 3, 5)}, {}, {1: A}, 1),  # a change of payload is lost
        ({1: (5, None, 6)}, {}, {1: A}, 1),  # a change of a vector is lost
        ({}, {}, {9: A}, 1),  # a point that nobody sent
    ],
)
def test_the_check_of_points_can_fail(known, pending, found, violations):
    wrong = []
    writer(known, pending).check(found, wrong)
    assert len(wrong) == violations, wrong


@pytest.mark.parametrize(
    "found, window, fits",
    [
        ({1: A}, (1, 2), True),
        ({1: A, 2: B}, (1, 2), True),
        ({1: A, 2: B, 3: B}, (1, 2), True),
        ({2: B}, (1, 2), False),  # the second operation without the first
        ({1: A, 2: B, 3: B, 4: C}, (1, 2), False),  # later than the end
        ({}, (1, 2), False),  # earlier than the beginning
        ({}, (0, 3), True),
        ({1: A, 2: B, 3: B, 4: C}, (0, 3), True),
        ({1: A, 2: B, 4: C}, (0, 3), False),  # the third with half of the second
        ({1: A, 2: C}, (0, 3), False),  # a state that was never sent
        ({1: A, 9: C}, (0, 3), False),  # a point that was never sent
    ],
)
def test_the_check_of_snapshots_can_fail(found, window, fits):
    assert writer({}, journal=[{1: A}, {2: B, 3: B}, {4: C}]).is_prefix(found, window) == fits


@pytest.mark.parametrize(
    "known, pending, found, violations",
    [
        ({"alias0": "history"}, {}, {"alias0": "history"}, 0),
        ({"alias0": "history"}, {}, {}, 1),
        ({"alias0": "history"}, {}, {"alias0": "anchor"}, 1),
        ({"alias0": "history"}, {"alias0": "anchor"}, {"alias0": "anchor"}, 0),
        ({"side1": None}, {}, {"side1": 8}, 1),  # a dropped collection is back
        ({"setting": 5}, {"setting": 6}, {"setting": 4}, 1),
        ({}, {}, {"alias3": "anchor"}, 1),
    ],
)
def test_the_check_of_settings_can_fail(known, pending, found, violations):
    clerk, wrong = history.Clerk(1), []
    clerk.known, clerk.pending = dict(known), dict(pending)
    clerk.check(found, wrong)
    assert len(wrong) == violations, wrong


def drop_a_point(server, name=history.NAME):
    """Behind the oracle's back."""
    server.start()
    http = server.http()
    page = http.result("POST", f"/collections/{name}/points/scroll", {"limit": 1})["points"]
    http.call("POST", f"/collections/{name}/points/delete?wait=true", {"points": [page[0]["id"]]})
    http.close()
    server.stop()


def drop_an_alias_and_a_snapshot(server):
    server.start()
    http = server.http()
    for alias in http.result("GET", "/aliases")["aliases"][:1]:
        http.call("POST", "/collections/aliases", {"actions": [{"delete_alias": {"alias_name": alias["alias_name"]}}]})
    for snapshot in http.result("GET", f"/collections/{history.NAME}/snapshots"):
        http.call("DELETE", f"/collections/{history.NAME}/snapshots/{snapshot['name']}")
    http.close()
    server.stop()


def change_a_setting(server):
    server.start()
    http = server.http()
    http.call("PATCH", f"/collections/{history.NAME}", {"optimizers_config": {"indexing_threshold": 77_777}})
    http.close()
    server.stop()


@needs_server
@pytest.mark.parametrize(
    "tamper, said",
    [
        (drop_a_point, "point "),
        (lambda server: drop_a_point(server, history.ANCHOR), "nobody touched"),
        (drop_an_alias_and_a_snapshot, " is gone"),
        (change_a_setting, "setting is 77777"),
    ],
)
def test_what_is_changed_behind_the_oracles_back_is_noticed(tmp_path, tamper, said):
    figures, wrong = kill.run(2, "48MB", seed=11, directory=tmp_path, say=lambda _: None, tamper=tamper)
    assert figures["violations"] and any(said in line for line in wrong), wrong


@needs_server
def test_an_index_that_finds_other_points_is_noticed(own_server):
    """The questions of the oracle, asked of a server that holds one point fewer, more, or another than it should."""
    made = history.History(seed=3)
    made.prepare(own_server)
    http, writer = own_server.http(), made.writers[0]
    for n in range(60):
        state = (n + 1, None, n + 1)
        http.call("PUT", f"/collections/{history.NAME}/points?wait=true", {"points": [writer.point(n, state)]})
        writer.known[n] = state
    for change, said in [
        ({}, []),
        ({7: None}, ["count", "tag", "facet", "dense"]),
        ({77: (5, None, 5)}, ["count", "tag", "facet", "dense"]),
        ({7: (8, 9, 8)}, ["marks"]),
        ({n: (n + 1, None, n + 8) for n in range(60)}, ["sparse"]),
        ({n: (n + 8, None, n + 1) for n in range(60)}, ["text", "versions"]),
    ]:
        believed = {p: s for p, s in {**writer.known, **change}.items() if s}
        wrong = []
        history.check_indexes(http, history.NAME, believed, random.Random(1), wrong)
        assert bool(wrong) == bool(change), (change, wrong)
        assert all(any(word in line for line in wrong) for word in said), (said, wrong)
    http.close()


@needs_server
def test_kill_9(tmp_path):
    cycles = int(os.environ.get("RAMLET_KILL_CYCLES", "8"))
    lines = []
    figures, wrong = kill.run(cycles, "48MB", seed=7, directory=tmp_path, say=lines.append)
    assert not wrong, "\n".join(lines)
    assert figures["acknowledged"] > cycles
    compare.NOTES.append(f"kill -9: {cycles} cycles, {figures['acknowledged']:,} operations acknowledged, {figures['lost']} lost")


@needs_server
@pytest.mark.parametrize("forget_syncs", [False, True], ids=["syncs", "a-disk-that-lies"])
def test_power_loss(tmp_path, forget_syncs):
    lines = []
    try:
        figures, wrong = power_loss.run(5, "48MB", seed=2, work=tmp_path, say=lines.append, forget_syncs=forget_syncs)
    except (disk.CannotMake, power_loss.faults.CannotMake) as why:
        pytest.skip(f"no disk of our own here: {why}")
    if forget_syncs:
        assert wrong, f"no sync was done, and nothing was missed: {figures}"
        return
    assert not wrong, "\n".join(lines)
    compare.NOTES.append(f"power loss: {figures['cycles']} cuts, {figures['acknowledged']:,} operations acknowledged, {figures['lost']} lost")
