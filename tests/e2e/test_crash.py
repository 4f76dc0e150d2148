"""A few cycles of crash_kill9.py; RAMLET_KILL_CYCLES makes it more."""

import os

import pytest

import compare
import conftest
import crash_kill9


def writer(known, pending=None):
    made = crash_kill9.Writer(0, seed=1)
    made.known, made.pending = dict(known), dict(pending or {})
    return made


@pytest.mark.parametrize(
    "known, pending, found, violations",
    [
        ({1: (5, None)}, {}, {1: (5, None)}, 0),
        ({1: (5, None)}, {}, {}, 1),  # an acknowledged upsert is lost
        ({1: (5, None)}, {}, {1: (4, None)}, 1),  # an older version is back
        ({1: None}, {}, {1: (4, None)}, 1),  # an acknowledged delete is undone
        ({1: (5, None)}, {1: (6, None)}, {1: (5, None)}, 0),  # in flight: not done
        ({1: (5, None)}, {1: (6, None)}, {1: (6, None)}, 0),  # in flight: done
        ({1: (5, None)}, {1: (6, None)}, {1: (7, None)}, 1),  # neither
        ({1: (5, None)}, {1: None}, {}, 0),  # a delete in flight: done
        ({1: (5, 3)}, {}, {1: (5, None)}, 1),  # a change of payload is lost
        ({}, {}, {9: (1, None)}, 1),  # a point that nobody sent
    ],
)
def test_the_check_can_fail(known, pending, found, violations):
    assert len(crash_kill9.check([writer(known, pending)], found, [])[0]) == violations


@pytest.mark.skipif(conftest.SELF, reason="needs a server")
def test_kill_9(tmp_path):
    cycles = int(os.environ.get("RAMLET_KILL_CYCLES", "8"))
    lines = []
    figures = crash_kill9.run(cycles, "64MB", seed=7, directory=tmp_path, say=lines.append)
    assert figures["violations"] == 0, "\n".join(lines)
    assert figures["acknowledged"] > cycles
    compare.NOTES.append(
        f"kill -9: {cycles} cycles, {figures['acknowledged']:,} operations acknowledged, "
        f"{figures['in_flight_at_kill']} in flight, {figures['violations']} violations"
    )
