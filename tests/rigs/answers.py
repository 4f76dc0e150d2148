#!/usr/bin/env python3
"""Answers of every size, over REST and gRPC: what they take on a loopback and on a link.

    RAMLET_BIN=target/release/ramlet .venv/bin/python tests/rigs/answers.py network

`network` makes namespaces of its own (root): a server and a client that share a loopback, and two that are joined by a cable with an
MTU of 1,500. A client asks for pages of 1 KB to 30 MB; delayed confirmations are the kernel's count in the client's namespace.
"""

import argparse
import json
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.http import Http  # noqa: E402
from harness.netns import Namespace  # noqa: E402
from harness.server import Server  # noqa: E402

COLLECTION, POINT_BYTES = "answers", 1000
COUNTS = [1, 10, 64, 83, 300, 820, 1_000, 5_000, 30_000]


def text(rng, length):
    return "".join(rng.choices(string.ascii_letters + string.digits, k=length))


def fill(http, points, size):
    """`points` of about `size` bytes each, as JSON."""
    http.call("PUT", f"/collections/{COLLECTION}", {"vectors": {"size": 2, "distance": "Dot"}})
    rng = random.Random(1)
    batch = max(1, min(500, 400_000 // size))
    for first in range(0, points, batch):
        some = [{"id": n, "vector": [1, n], "payload": {"text": text(rng, size - 40)}} for n in range(first, min(first + batch, points))]
        http.call("PUT", f"/collections/{COLLECTION}/points?wait=true", {"points": some})


def rest_page(host, port):
    http = Http(f"http://{host}:{port}")

    def ask(count):
        body = json.dumps({"limit": count, "with_payload": True})
        status, _, answer = http.raw("POST", f"/collections/{COLLECTION}/points/scroll", body)
        assert status == 200, (status, answer[:300])
        return len(answer)

    return ask


def grpc_page(host, port):
    import grpc
    from qdrant_client import grpc as pb

    channel = grpc.insecure_channel(f"{host}:{port}", options=[("grpc.max_receive_message_length", -1)])
    scroll = channel.unary_unary("/qdrant.Points/Scroll")
    with_payload = pb.WithPayloadSelector(enable=True)

    def ask(count):
        return len(scroll(pb.ScrollPoints(collection_name=COLLECTION, limit=count, with_payload=with_payload).SerializeToString()))

    return ask


def client(api, host, port, rounds, counts):
    """Runs in the client's namespace: a line of JSON for each size."""
    ask = (rest_page if api == "rest" else grpc_page)(host, port)
    for count in counts:
        ask(count)
        times, before = [], Namespace._counts()["DelayedACKs"]
        for _ in range(rounds):
            started = time.perf_counter()
            size = ask(count)
            times.append(time.perf_counter() - started)
            # The next question would carry a confirmation that is still due.
            time.sleep(0.06)
        delayed = Namespace._counts()["DelayedACKs"] - before
        print(json.dumps({"bytes": size, "p50_ms": 1e3 * statistics.median(times), "max_ms": 1e3 * max(times), "delayed": delayed / rounds}), flush=True)


def run_client(api, host, port, rounds, counts):
    """The client as a process of its own: the threads of gRPC's library wouldn't be in the namespace."""
    counts = ",".join(map(str, counts))
    command = [sys.executable, __file__, "client", "--api", api, "--at", f"{host}:{port}", "--rounds", str(rounds), "--counts", counts]
    return subprocess.run(command, capture_output=True, text=True)


def measure(link, memory, rounds, counts, binary_name):
    """Asks a server of `memory` over one kind of link."""
    with Namespace() as ours, Namespace() as theirs, tempfile.TemporaryDirectory() as directory:
        asking, host = ours, "127.0.0.1"
        if link != "loopback":
            ours.link(theirs, mtu=1500)
            asking, host = theirs, "10.0.0.1"
        server = Server(Path(directory) / "data", memory=memory, arguments=["--host", "0.0.0.0", "--insecure"])
        ours.run(server.start)
        try:
            ours.run(lambda: fill(server.http(), counts[-1], POINT_BYTES))
            for api, port in (("rest", server.port), ("grpc", server.grpc_port)):
                done = asking.run(run_client, api, host, port, rounds, counts)
                for line in done.stdout.splitlines():
                    row = json.loads(line)
                    print(
                        f"{binary_name:8} {memory:>6} {link:8} {api:4} {row['bytes']:>12,} bytes: p50 {row['p50_ms']:8.2f} ms, "
                        f"longest {row['max_ms']:8.2f} ms, {row['delayed']:5.2f} delayed confirmations an answer",
                        flush=True,
                    )
                if done.returncode:
                    said = [line.strip() for line in done.stderr.splitlines() if "details =" in line or "Error" in line]
                    print(f"{binary_name:8} {memory:>6} {link:8} {api:4} ended: {said[-1]}", flush=True)
        finally:
            ours.run(server.stop)


def network(arguments):
    for memory in arguments.memory.split(","):
        for link in ("loopback", "mtu1500"):
            measure(link, memory, arguments.rounds, arguments.counts, arguments.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["network", "client"])
    parser.add_argument("--memory", default="64MB,512MB")
    parser.add_argument("--counts", type=lambda text: [int(n) for n in text.split(",")], default=COUNTS, help="points of a page")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--name", default="now", help="stands in front of each line")
    parser.add_argument("--api", choices=["rest", "grpc"])
    parser.add_argument("--at")
    arguments = parser.parse_args()
    if arguments.what == "client":
        host, port = arguments.at.rsplit(":", 1)
        client(arguments.api, host, int(port), arguments.rounds, arguments.counts)
    else:
        network(arguments)


if __name__ == "__main__":
    main()
