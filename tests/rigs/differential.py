#!/usr/bin/env python3
"""Random histories on a server and on qdrant-client's local mode, for minutes or hours: what differs is printed with the step that showed it.

    tests/rigs/differential.py --minutes 60 --seed 1 --memory 16,32,64

Each round is a new server with another seed and the next budget. tests/e2e/differential.py says what is done, docs/differences.md what is known to differ. Needs
qdrant-client 1.20 (tests/e2e/requirements.txt). Prints one line of JSON; exit code 1 at the first difference, whose data is kept.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "e2e")]

import compare  # noqa: E402
from conftest import client_of  # noqa: E402
from differential import Worlds  # noqa: E402
from harness.history import summary  # noqa: E402
from harness.server import Server  # noqa: E402

ROUND_STEPS = 1_000


def round_of(seed, memory, directory, until):
    server = Server(Path(directory) / "data", memory=f"{memory}MB").start()
    worlds = Worlds(server, client_of, seed)
    steps = 0
    try:
        while steps < ROUND_STEPS and time.monotonic() < until:
            steps += 1
            worlds.step()
        [history.pair.same_state() for history in worlds.histories]
    except Exception as error:  # noqa: BLE001  told with where it was met
        raise AssertionError(f"seed {seed}, {memory} MB, step {steps}: {error}") from error
    finally:
        worlds.close()
        server.kill()
    return worlds.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="16,32,64", help="MB, in turns")
    a = parser.parse_args()
    until, done, rounds, wrong = time.monotonic() + 60 * a.minutes, Counter(), 0, []
    while time.monotonic() < until and not wrong:
        memory = a.memory.split(",")[rounds % len(a.memory.split(","))]
        directory = tempfile.mkdtemp(prefix="ramlet-differential-")
        try:
            done.update(round_of(a.seed + rounds, memory, directory, until))
            shutil.rmtree(directory)
        except AssertionError as error:
            wrong.append(str(error))
            print(f"{error}\nthe data is kept in {directory}", file=sys.stderr)
        rounds += 1
    print(summary({**vars(a), "rounds": rounds, "compared": sum(compare.CASES.values()), "steps": dict(done), "wrong": wrong}))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
