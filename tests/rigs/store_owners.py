#!/usr/bin/env python3
"""Three nodes over one store without roles, or two for each of several shards: the one that writes is killed, stopped, woken up late, cut off from the store, ended, and made anew; the others too.

    tests/rigs/store_owners.py --cycles 50 --seed 1 --store s3 --takeover-after 2
    tests/rigs/store_owners.py --cycles 20 --shards 3
    tests/rigs/store_owners.py --cycles 20 --shards 3 --spare

With `--spare` each shard has one node, and there is one more: it goes where nobody is left.

Clients own points, and raise a number in each by upserts and by changes of payloads, at any node. After each cycle all nodes must agree on every point. Each
number must be the last one acknowledged, or one that was sent after it. Exit code 1 otherwise.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from harness.s3 import S3  # noqa: E402
from harness.server import Server  # noqa: E402
from harness.wire import Wire  # noqa: E402
from store_nodes import CLIENTS, DIM, Client, answers_of, change_index, end_all, faults_of, pause, points_of  # noqa: E402

NODES = 3


class Rig:
    def __init__(self, args, directory):
        self.rng, self.directory, self.after, self.s3 = random.Random(args.seed), directory, args.takeover_after, None
        self.shards, self.spare, self.moved = args.shards, args.spare, []
        count = NODES if self.shards == 1 else self.shards + 1 if self.spare else 2 * self.shards
        self.url, environment, self.wires = f"file://{directory}/store", [{}] * count, []
        if args.store == "s3":
            self.s3 = S3().__enter__()
            self.url = "s3://bucket/shard"
            self.wires = [Wire(self.s3.server.server_port) for _ in range(count)]
            environment = [{**self.s3.environment, "AWS_ENDPOINT": f"http://127.0.0.1:{wire.here}"} for wire in self.wires]
        arguments = ["--store", self.url, "--no-probe", "--takeover-after", f"{self.after}s", "--store-backup-every", "200", "--store-keep", "1"]
        # One that is made anew comes back to its shard.
        held = [["--shards", str(self.shards), *([] if self.spare else ["--shard", str(n % self.shards)])] if self.shards > 1 else [] for n in range(count)]
        self.nodes = [Server(f"{directory}/n{n}", args.memory, arguments + held[n], environment=environment[n]) for n in range(count)]
        for node in self.nodes:
            node.start()
        self.events, self.failovers = {}, []
        http = self.nodes[0].http()
        http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
        http.close()
        self.clients = [Client(n + 1, self.nodes) for n in range(CLIENTS)]

    def status(self, node):
        try:
            http = node.http(5)
            try:
                return http.call("GET", "/cluster")["result"]["store"]
            finally:
                http.close()
        except (OSError, ValueError, KeyError):
            return {}

    def owner(self, shard):
        """The one that writes, of a shard's nodes; waits for it."""
        end = time.monotonic() + 90
        while time.monotonic() < end:
            writers = [node for node in self.group(shard) if node.alive() and self.status(node).get("role") == "writer"]
            if writers:
                return writers[0]
            time.sleep(0.05)
        raise TimeoutError("no node writes\n" + "\n---\n".join(node.log()[-3000:] for node in self.nodes))

    def group(self, shard):
        """The nodes of a shard; where nodes move, waits for one."""
        if not self.spare:
            return self.nodes[shard :: self.shards]
        end = time.monotonic() + 90
        while time.monotonic() < end:
            group = [node for node in self.nodes if node.alive() and self.status(node).get("shard") == shard]
            if group:
                return group
            time.sleep(0.05)
        raise TimeoutError(f"nobody holds shard {shard}\n" + "\n---\n".join(node.log()[-3000:] for node in self.nodes))

    def fail_over(self, away, alone):
        """Seconds from now until a client that asks the nodes that are left is acknowledged. `alone`: nobody else held its shard."""
        begun = time.monotonic()
        left = [node for node in self.nodes if node is not away]
        # So many that each shard has one of them.
        points = [{"id": 99_000_000 + n, "vector": [0.5] * DIM, "payload": {"n": 1}} for n in range(1 if self.shards == 1 else 40)]
        body = json.dumps({"points": points}).encode()
        for turn in itertools.count():
            try:
                http = left[turn % len(left)].http(20)
                status = http.raw("PUT", "/collections/docs/points?wait=true", body)[0]
                http.close()
            except OSError:
                status = 0
            if status == 200:
                break
            if time.monotonic() > begun + 90:
                raise TimeoutError("no node writes\n" + "\n---\n".join(node.log()[-3000:] for node in self.nodes))
            time.sleep(0.02)
        (self.moved if alone else self.failovers).append(time.monotonic() - begun)

    def event(self):
        name = self.rng.choice(["kill", "kill", "zombie", "zombie", "cut", "end", "storm", "reader killed", "reader anew", "owner anew", "index"])
        if name in ("storm", "cut") and not self.s3:
            name = "kill"
        self.events[name] = self.events.get(name, 0) + 1
        shard = self.rng.randrange(self.shards)
        owner, group = self.owner(shard), self.group(shard)
        alone = group == [owner]
        other = self.rng.choice([node for node in group if alone or node is not owner])
        if name == "kill":
            owner.kill()
            self.fail_over(owner, alone)
            owner.start()
        elif name == "owner anew":
            owner.kill()
            shutil.rmtree(owner.data)
            self.fail_over(owner, alone)
            owner.start()
        elif name == "end":
            owner.stop()
            self.fail_over(owner, alone)
            owner.start()
        elif name == "zombie":
            os.kill(owner.process.pid, signal.SIGSTOP)
            self.fail_over(owner, alone)
            time.sleep(self.rng.random())
            os.kill(owner.process.pid, signal.SIGCONT)
        elif name == "cut":
            wire = self.wires[self.nodes.index(owner)]
            wire.cut()
            self.fail_over(owner, alone)
            time.sleep(self.rng.random())
            wire.mend()
        elif name == "storm":
            self.s3.fails = self.rng.choice([1, 2, 3])
            time.sleep(3)
            self.s3.fails = 0
        elif name == "reader killed":
            other.restart(kill=True)
        elif name == "reader anew":
            other.kill()
            shutil.rmtree(other.data)
            other.start()
        elif name == "index":
            change_index(other, self.rng)
        time.sleep(self.rng.random())

    def check(self):
        pause(self.clients)
        end = time.monotonic() + 90
        while not all(node.ready() for node in self.nodes) and time.monotonic() < end:
            time.sleep(0.1)
        for shard in range(self.shards):
            self.owner(shard)
        slot = max(self.status(node).get("slot", 0) for node in self.nodes)
        first, *others = [points_of(node, slot if self.shards == 1 else None) for node in self.nodes]
        faults = [f"node {n + 1} has other points than node 0" for n, other in enumerate(others) if other != first]
        return slot, faults + faults_of(self.clients, first)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["file", "s3"], default="s3", help="a directory, or a small S3 server in this process, which also fails")
    parser.add_argument("--memory", default="96MB")
    parser.add_argument("--takeover-after", type=float, default=2)
    parser.add_argument("--shards", type=int, default=1, help="more than 1: two nodes for each of so many")
    parser.add_argument("--spare", action="store_true", help="one node for each shard, and one more")
    args = parser.parse_args()
    assert args.shards > 1 or not args.spare, "--spare is for several shards"
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ramlet-owners-") as directory:
        rig = Rig(args, directory)
        try:
            for cycle in range(args.cycles):
                for _ in range(rig.rng.randint(1, 3)):
                    rig.event()
                slot, faults = rig.check()
                print(f"cycle {cycle}: slot {slot}, {time.monotonic() - begun:.0f} s", file=sys.stderr)
                if faults:
                    print(f"cycle {cycle}: {faults[:5]}\nevents {rig.events}")
                    print(*(node.log() for node in rig.nodes), sep="\n---\n")
                    return 1
            epoch = rig.status(rig.owner(0))["epoch"]
        finally:
            end_all(rig.clients, rig.nodes)
        print(f"{args.cycles} cycles, seed {args.seed}, {args.store}, {len(rig.nodes)} nodes of {args.memory}, {args.shards} shard(s), --takeover-after {args.takeover_after}s, {time.monotonic() - begun:.0f} s")
        print(f"events {dict(sorted(rig.events.items()))}")
        print(f"slots {slot}, epochs {epoch}, answers by status {answers_of(rig.clients)} (0: none came)")
        times = sorted(rig.failovers) or [0]
        print(f"failovers {len(rig.failovers)}, until clients are acknowledged again: median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s")
        if rig.spare:
            times = sorted(rig.moved) or [0]
            print(f"of a shard that nobody held any more {len(rig.moved)}: median {times[len(times) // 2]:.2f} s, longest {times[-1]:.2f} s")
        print("acknowledged writes lost 0, differences between nodes 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
