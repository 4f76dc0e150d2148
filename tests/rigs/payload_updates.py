#!/usr/bin/env python3
"""Updates of single payloads, acknowledged one by one, by the number of clients: how many of them share a sync of the log.

    RAMLET_BIN=target/release/ramlet python tests/rigs/payload_updates.py [--clients 1 8 32] [--seconds 5] [--points 20000]

Prints a line of JSON for each number of clients: updates a second, syncs of the log, updates a sync.

    python tests/rigs/payload_updates.py --operations 2000

One client's `points/batch` of so many operations of one point: of different points, of one point again and again, and points that are put and changed.
By REST, and by gRPC (`UpdateBatch`). Prints seconds and syncs of each.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.server import Server  # noqa: E402

PATH, DIM, BATCH = "/collections/c", 32, 500


def syncs(http):
    _, _, text = http.raw("GET", "/metrics")
    return sum(float(value) for value in re.findall(rb"^ramlet_log_sync_seconds_count(?:{[^}]*})? (\S+)$", text, re.MULTILINE))


def load(http, points):
    rng = random.Random(1)
    http.call("PUT", PATH, {"vectors": {"size": DIM, "distance": "Cosine"}})
    for first in range(0, points, BATCH):
        some = [{"id": i, "vector": [rng.gauss(0, 1) for _ in range(DIM)], "payload": {"n": i}} for i in range(first, min(first + BATCH, points))]
        http.call("PUT", f"{PATH}/points?wait=true", {"points": some})


def update(server, seed, points, until, counts):
    http, rng, count = server.http(), random.Random(seed), 0
    while time.monotonic() < until:
        http.call("POST", f"{PATH}/points/payload?wait=true", {"payload": {"count": count}, "points": [rng.randrange(points)]})
        count += 1
    counts.append(count)
    http.close()


def mixes(operations):
    """Names and operations as the API's JSON has them."""

    def put(number):
        return {"upsert": {"points": [{"id": number, "vector": [1.0] * DIM}]}}

    def change(number, value):
        return {"set_payload": {"payload": {"count": value}, "points": [number]}}

    yield "points of their own", [change(n, n) for n in range(operations)]
    yield "one point", [change(7, n) for n in range(operations)]
    yield "put and changed", [put(100_000 + n // 2) if n % 2 == 0 else change(100_000 + n // 2, n) for n in range(operations)]


def by_grpc(server):
    """Sends operations as the official client does."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(host="127.0.0.1", port=server.port, grpc_port=server.grpc_port, prefer_grpc=True, timeout=120)

    def render(operation):
        ((kind, body),) = operation.items()
        if kind == "upsert":
            return models.UpsertOperation(upsert=models.PointsList(points=[models.PointStruct(payload={}, **point) for point in body["points"]]))
        return models.SetPayloadOperation(set_payload=models.SetPayload(**body))

    return lambda operations: client.batch_update_points("c", [render(operation) for operation in operations], wait=True)


def batches(server, http, operations):
    def by_rest(rendered):
        http.call("POST", f"{PATH}/points/batch?wait=true", {"operations": rendered})

    for transport, send in [("REST", by_rest), ("gRPC", by_grpc(server))]:
        for name, rendered in mixes(operations):
            before, begun = syncs(http), time.monotonic()
            send(rendered)
            seconds = time.monotonic() - begun
            figures = {"batch": name, "transport": transport, "operations": operations, "seconds": round(seconds, 3), "syncs": int(syncs(http) - before)}
            print(json.dumps(figures), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--operations", type=int, help="a batch of so many, instead of clients")
    parser.add_argument("--memory", default="128MB")
    parser.add_argument("--work", help="directory for the server's data [default: a temporary one]")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as work, Server(Path(work) / "data", memory=arguments.memory) as server:
        http = server.http()
        load(http, arguments.points)
        if arguments.operations:
            return batches(server, http, arguments.operations)
        for clients in arguments.clients:
            before, counts, until = syncs(http), [], time.monotonic() + arguments.seconds
            threads = [threading.Thread(target=update, args=(server, seed, arguments.points, until, counts)) for seed in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            made = syncs(http) - before
            figures = {"clients": clients, "updates_per_s": round(sum(counts) / arguments.seconds), "syncs": int(made), "updates_per_sync": round(sum(counts) / max(made, 1), 2)}
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
