#!/usr/bin/env python3
"""CPU of the server's front: what a simple query costs beside the search itself.

    RAMLET_BIN=target/release/ramlet python tests/rigs/front.py [--seconds 5] [--dim 100]

A collection of ten points makes the search itself nearly free, so that the process's CPU per query, by thread and as the kernel
counts it, is the front's: sockets, HTTP, keys, admission, parsing, queues, writing of the answer. One connection asks and waits
(every query pays its own wake-ups: the dearest case), then eight at once.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from socket import create_connection

import grpc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import Server  # noqa: E402

COLLECTION = "front"


def cpu_by_thread(pid):
    """Nanoseconds on a core, by the threads' names."""
    spent = Counter()
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            spent[name] += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return spent


def settle(pid):
    """Waits until the measurement of the disk that follows a start is over: it is no query's, and its thread's time is gone with it."""
    for _ in range(600):
        if "probe" not in cpu_by_thread(pid):
            return
        time.sleep(0.1)
    sys.exit("the server's probe doesn't end")


def switches(pid):
    """Times that a thread of the server went to sleep of itself."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        count += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
    return count


def fill(server, dim):
    http = server.http()
    http.call("PUT", f"/collections/{COLLECTION}", {"vectors": {"size": dim, "distance": "Dot"}})
    points = [{"id": n, "vector": [n / 10 + i / dim for i in range(dim)]} for n in range(10)]
    http.call("PUT", f"/collections/{COLLECTION}/points?wait=true", {"points": points})
    http.close()


def rest_asker(server, vector):
    """Sends one rendered request again and again on one connection."""
    body = json.dumps({"query": [round(x, 6) for x in vector], "limit": 10}).encode()
    head = f"POST /collections/{COLLECTION}/points/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    request = head.encode() + body
    sock = create_connection(("127.0.0.1", server.port))

    def ask():
        sock.sendall(request)
        answer = b""
        while True:
            answer += sock.recv(65536)
            head, _, rest = answer.partition(b"\r\n\r\n")
            at = head.lower().find(b"content-length: ")
            if at >= 0 and len(rest) >= int(head[at + 16 :].split(b"\r\n")[0]):
                assert head.startswith(b"HTTP/1.1 200"), answer
                return

    return ask


def grpc_asker(server, vector):
    from qdrant_client import grpc as pb

    dense = pb.VectorInput(dense=pb.DenseVector(data=vector))
    message = pb.QueryPoints(collection_name=COLLECTION, query=pb.Query(nearest=dense), limit=10).SerializeToString()
    # Without an option of its own every channel would share one connection.
    channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options=[("front.connection", str(time.monotonic_ns()))])
    method = channel.unary_unary("/qdrant.Points/Query")

    def ask():
        assert len(method(message)) > 10

    return ask


def measure(server, asker, vector, connections, seconds):
    """(queries, nanoseconds by thread, sleeps) of a closed loop."""
    asks = [asker(server, vector) for _ in range(connections)]
    for ask in asks:
        for _ in range(200):
            ask()
    counts, stop = [0] * connections, threading.Event()

    def loop(at):
        while not stop.is_set():
            asks[at]()
            counts[at] += 1

    threads = [threading.Thread(target=loop, args=(n,)) for n in range(connections)]
    before, slept = cpu_by_thread(server.process.pid), switches(server.process.pid)
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    spent = cpu_by_thread(server.process.pid)
    spent.subtract(before)
    return sum(counts), spent, switches(server.process.pid) - slept


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--json", type=Path, help="a file that the figures are appended to, a line each")
    args = parser.parse_args()
    vector = [i / args.dim for i in range(args.dim)]
    with tempfile.TemporaryDirectory() as scratch, Server(Path(scratch) / "data") as server:
        fill(server, args.dim)
        time.sleep(1)
        settle(server.process.pid)
        for name, asker in [("REST", rest_asker), ("gRPC", grpc_asker)]:
            for connections in [1, 8]:
                queries, spent, sleeps = measure(server, asker, vector, connections, args.seconds)
                parts = {thread: round(ns / queries / 1000, 1) for thread, ns in sorted(spent.items()) if ns / queries > 300}
                total = sum(spent.values()) / queries / 1000
                shown = ", ".join(f"{thread} {us}" for thread, us in parts.items())
                print(
                    f"{name}, {connections} connections: {queries:,} queries, {total:.1f} us of CPU each ({shown}), {sleeps / queries:.2f} sleeps",
                    flush=True,
                )
                if args.json:
                    row = {"api": name, "connections": connections, "queries": queries, "cpu_us": round(total, 1)}
                    row |= {"by_thread": parts, "sleeps": round(sleeps / queries, 2)}
                    with args.json.open("a") as out:
                        out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
