#!/usr/bin/env python3
"""SIGKILL in the midst of pushes, pulls and prunes, again and again: is every backup whole, and does each go on where it was cut off?

    tests/rigs/store_kill.py --cycles 100 --seed 1

Two data directories are pushed to one store, a directory, now one, now the other. Most commands are killed at a random moment. After each cycle every backup that
the store lists is pulled, its pull killed on the way too, and each file compared with the directory that it was made of. Exit code 1 when one differs.
"""

import argparse
import filecmp
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.server import Server, binary  # noqa: E402

DIM = 256


def made(directory, seed, count):
    """A data directory with so many points."""
    server, rng = Server(directory, memory="96MB").start(), random.Random(seed)
    http = server.http()
    http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
    for start in range(0, count, 500):
        points = [{"id": i, "vector": list(rng.randbytes(DIM)), "payload": {"n": i}} for i in range(start, start + 500)]
        http.call("PUT", "/collections/docs/points?wait=true", {"points": points})
    http.close()
    server.stop()
    return directory


class Commands:
    def __init__(self, rng):
        self.rng, self.killed, self.whole = rng, 0, 0

    def run(self, *words, within=None):
        """What it said; None when it was killed after a random share of so many seconds."""
        process = subprocess.Popen([str(binary()), "store", *map(str, words), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if within is not None:
            time.sleep(self.rng.random() * within)
            process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        if process.returncode == -signal.SIGKILL:
            self.killed += 1
            return None
        if process.returncode:
            sys.exit(f"ramlet store {' '.join(map(str, words))}: {err}")
        self.whole += 1
        return [json.loads(line) for line in out.splitlines()]


def files(directory):
    return {file.relative_to(directory).as_posix() for file in directory.rglob("*") if file.is_file()}


def same(pulled, source):
    """Whether each file is as in the directory that was pushed. That one has more: lists of before, its lock, the machine's profile."""
    names = files(pulled)
    return names and all(filecmp.cmp(pulled / name, source / name, shallow=False) for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=20_000)
    a = parser.parse_args()
    rng = random.Random(a.seed)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        sources = [made(place / name, seed, a.points) for seed, name in enumerate(("one", "other"))]
        url, commands, of, compared, kept = f"file://{place}/store", Commands(rng), {}, 0, 0
        start = time.monotonic()
        commands.run("push", sources[0], url)
        usual = time.monotonic() - start
        known = {backup["backup"] for backup in commands.run("list", url)}
        of.update(dict.fromkeys(known, sources[0]))
        for _ in range(a.cycles):
            source = rng.choice(sources)
            for _ in range(rng.randint(1, 3)):
                commands.run("push", source, url, within=usual * 1.2)
            if rng.random() < 0.3:
                commands.run("prune", url, "--keep", rng.randint(1, 2), within=usual if rng.random() < 0.6 else None)
            listed = [backup["backup"] for backup in commands.run("list", url)]
            # A push that was killed after its manifest was made is a backup too.
            of.update({number: source for number in listed if number not in of})
            number = rng.choice(listed)
            pulled = place / "pulled"
            # It has its name when it is whole, whatever became of the command.
            while not pulled.exists():
                done = commands.run("pull", url, pulled, "--backup", number, within=usual if rng.random() < 0.6 else None)
                kept += bool(done and done[0]["kept_bytes"])
            compared += 1
            if not same(pulled, of[number]):
                sys.exit(f"backup {number} is another: {directory}")
            shutil.rmtree(pulled)
        print(f"{a.cycles} cycles: {commands.killed} commands killed, {commands.whole} whole; {compared} backups pulled and compared, {kept} of them went on from a pull that was killed; 0 differed")


if __name__ == "__main__":
    main()
