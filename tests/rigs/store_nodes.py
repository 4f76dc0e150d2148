#!/usr/bin/env python3
"""Writers and readers over one store that are killed, stopped, woken up late, cut off from the store, and made anew: is any acknowledged write lost?

    tests/rigs/store_nodes.py --cycles 50 --seed 1 --store s3

Clients own points, and raise a number in each by upserts and by changes of payloads, at any writer that runs, old ones too. After each cycle the newest writer
and a reader must agree on every point. Each number must be the last one acknowledged, or one that was sent after it. Exit code 1 otherwise.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness.http import Http  # noqa: E402
from harness.s3 import S3  # noqa: E402
from harness.server import Server  # noqa: E402

DIM, POINTS, CLIENTS = 32, 40, 4


class Client:
    """A thread with points of its own. `sent` and `acknowledged` by point."""

    def __init__(self, number, writers):
        self.rng, self.writers, self.stop = random.Random(number), writers, threading.Event()
        self.sent = {number * 1_000_000 + i: 0 for i in range(POINTS)}
        self.acknowledged = dict.fromkeys(self.sent, 0)
        self.answers, self.longest, self.paused = {}, 0.0, threading.Event()
        self.idle = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            if self.paused.is_set():
                self.idle.set()
                time.sleep(0.02)
                continue
            self.idle.clear()
            node = self.rng.choice(list(self.writers))
            point = self.rng.choice(list(self.sent))
            self.sent[point] += 1
            value = self.sent[point]
            if self.acknowledged[point] and self.rng.random() < 0.5:
                method, path, body = "POST", "payload", {"payload": {"n": value}, "points": [point]}
            else:
                vector = [b / 255 for b in self.rng.randbytes(DIM)]
                method, path, body = "PUT", "", {"points": [{"id": point, "vector": vector, "payload": {"n": value}}]}
            begun = time.monotonic()
            try:
                http = Http(node.url, None, timeout=20)
                status, _, _ = http.raw(method, f"/collections/docs/points/{path}?wait=true".replace("/?", "?"), json.dumps(body).encode())
                http.close()
            except OSError:
                status = 0
                time.sleep(0.02)
            self.answers[status] = self.answers.get(status, 0) + 1
            if status == 200:
                self.acknowledged[point] = value
                self.longest = max(self.longest, time.monotonic() - begun)


def points_of(node, slot):
    """Number and vector by point, of a node that has this slot, or looks at the ends of all logs first."""
    http = node.http(90)
    if slot is not None:
        http.headers["ramlet-slot-min"] = str(slot)
    consistency = "?consistency=majority" if slot is None else ""
    result = http.call("POST", f"/collections/docs/points/scroll{consistency}", {"limit": 10_000, "with_payload": True, "with_vector": True})["result"]
    http.close()
    return {point["id"]: (point["payload"]["n"], point["vector"]) for point in result["points"]}


def pause(clients):
    for client in clients:
        client.paused.set()
    for client in clients:
        client.idle.wait(60)


def faults_of(clients, there):
    """What is there against what was acknowledged and sent; then the clients go on."""
    faults = []
    for client in clients:
        for point, acknowledged in client.acknowledged.items():
            found = there.get(point, (0, None))[0]
            if not acknowledged <= found <= client.sent[point]:
                faults.append(f"point {point}: {acknowledged} was acknowledged, {client.sent[point]} sent, {found} is there")
        client.idle.clear()
        client.paused.clear()
    return faults


def end_all(clients, nodes):
    for client in clients:
        client.stop.set()
    for node in nodes:
        node.kill()


def answers_of(clients):
    """How many answers had each status."""
    answers = Counter()
    for client in clients:
        answers.update(client.answers)
    return dict(sorted(answers.items()))


def change_index(node, rng):
    """Makes or drops a payload index."""
    http = node.http(60)
    method = rng.choice(["PUT", "DELETE"])
    body = json.dumps({"field_name": "n", "field_schema": "integer"}).encode()
    http.raw(method, "/collections/docs/index" + ("/n" if method == "DELETE" else "") + "?wait=true", body)
    http.close()


class Rig:
    def __init__(self, args, directory):
        self.rng, self.directory, self.made, self.s3 = random.Random(args.seed), directory, 0, None
        self.url, self.environment = f"file://{directory}/store", {}
        if args.store == "s3":
            self.s3 = S3().__enter__()
            self.url, self.environment = "s3://bucket/shard", self.s3.environment
        self.memory, self.events, self.takeovers = args.memory, {}, []
        self.writer = self.node("writer")
        http = self.writer.http()
        http.call("PUT", "/collections/docs", {"vectors": {"size": DIM, "distance": "Dot"}})
        http.close()
        self.writers, self.reader = [self.writer], self.node("reader")
        self.clients = [Client(n + 1, self.writers) for n in range(CLIENTS)]

    def node(self, role):
        self.made += 1
        arguments = ["--store", self.url, "--role", role, "--no-probe", "--store-backup-every", "200", "--store-keep", "1"]
        return Server(f"{self.directory}/n{self.made}", self.memory, arguments, environment=self.environment).start()

    def take_over(self):
        begun = time.monotonic()
        self.writer = self.node("writer")
        self.takeovers.append(time.monotonic() - begun)
        self.writers.append(self.writer)

    def drop_old(self):
        for node in self.writers[:-1]:
            node.kill()
            shutil.rmtree(node.data)
        del self.writers[:-1]

    def event(self):
        name = self.rng.choice(["kill", "restart", "second", "zombie", "storm", "reader killed", "reader anew", "index"])
        if name == "storm" and not self.s3:
            name = "kill"
        self.events[name] = self.events.get(name, 0) + 1
        if name == "kill":
            self.writer.restart(kill=True)
        elif name == "restart":
            self.writer.restart()
        elif name == "second":
            self.take_over()
        elif name == "zombie":
            old = self.writer.process.pid
            os.kill(old, signal.SIGSTOP)
            self.take_over()
            time.sleep(self.rng.random())
            os.kill(old, signal.SIGCONT)
        elif name == "storm":
            self.s3.fails = self.rng.choice([1, 2, 3])
            time.sleep(3)
            self.s3.fails = 0
        elif name == "reader killed":
            self.reader.restart(kill=True)
        elif name == "reader anew":
            self.reader.kill()
            shutil.rmtree(self.reader.data)
            self.reader.start()
        elif name == "index":
            change_index(self.writer, self.rng)
        time.sleep(self.rng.random())

    def check(self):
        pause(self.clients)
        until = time.monotonic() + 60
        while not self.writer.ready() and time.monotonic() < until:
            time.sleep(0.1)
        http = self.writer.http()
        slot = http.call("GET", "/cluster")["result"]["store"]["slot"]
        http.close()
        there = points_of(self.writer, slot)
        faults = [] if there == points_of(self.reader, slot) else ["writer and reader differ"]
        return slot, faults + faults_of(self.clients, there)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["file", "s3"], default="s3", help="a directory, or a small S3 server in this process, which also fails")
    parser.add_argument("--memory", default="96MB")
    args = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ramlet-nodes-") as directory:
        rig = Rig(args, directory)
        try:
            for cycle in range(args.cycles):
                for _ in range(rig.rng.randint(1, 3)):
                    rig.event()
                slot, faults = rig.check()
                rig.drop_old()
                print(f"cycle {cycle}: slot {slot}, {time.monotonic() - begun:.0f} s", file=sys.stderr)
                if faults:
                    print(f"cycle {cycle}: {faults[:5]}\nevents {rig.events}")
                    print(rig.writer.log(), rig.reader.log(), sep="\n---\n")
                    return 1
        finally:
            end_all(rig.clients, [*rig.writers, rig.reader])
        print(f"{args.cycles} cycles, seed {args.seed}, {args.store}, nodes of {args.memory}, {time.monotonic() - begun:.0f} s")
        print(f"events {dict(sorted(rig.events.items()))}")
        print(f"slots {slot}, answers by status {answers_of(rig.clients)} (0: none came)")
        takeovers = sorted(rig.takeovers) or [0]
        print(f"takeovers {len(rig.takeovers)}, from start to ready: median {takeovers[len(takeovers) // 2]:.2f} s, longest {takeovers[-1]:.2f} s")
        print("acknowledged writes lost 0, differences between writer and reader 0")
    return 0


if __name__ == "__main__":
    sys.exit(main())
