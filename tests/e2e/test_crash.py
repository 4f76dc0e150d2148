"""A few cycles of crash_kill9.py; RAMLET_KILL_CYCLES makes it more."""

import os

import pytest

import compare
import conftest
import crash_kill9


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
