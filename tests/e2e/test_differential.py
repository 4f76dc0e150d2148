"""Random histories against the local mode, restarts and kills among them, in small budgets. Hours of it: `cargo xtask rig differential`."""

import pytest

import compare
import conftest
from differential import Worlds
from harness.server import Server

STEPS = 500


@pytest.mark.parametrize("memory", ["16MB", "32MB", "64MB"])
def test_random_histories(tmp_path, memory):
    if conftest.SELF:
        pytest.skip("needs a server")
    with Server(tmp_path / "data", memory=memory) as server:
        worlds = Worlds(server, conftest.client_of, seed=f"ci {memory}")
        for _ in range(STEPS):
            worlds.step()
        [history.pair.same_state() for history in worlds.histories]
        compare.NOTES.append(f"histories in {memory}: " + ", ".join(f"{count} {kind}" for kind, count in sorted(worlds.steps.items())))
        worlds.close()
        server.stop()
        code, said = server.check()
        assert code == 0, said
