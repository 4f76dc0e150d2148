#!/usr/bin/env python3
"""Where the time of an upload by the official Python client goes: the client's own CPU, the server's by thread, and the log's syncs.

    RAMLET_BIN=target/release/ramlet python tests/rigs/client_upload.py [--points 1000000] [--batch 64] [--parallel 1] [--memory 135MB]

Prints a line of JSON. `client_cpu_s` is what the client would take with a server that costs nothing: it waits for an answer before it renders the
next batch. `waited_s` is the rest of the wall time. `sync_s` are the seconds in write and sync of the log, of which `syncs` were made; `stalled_s` those in
which a write waited for room in the write buffers.
`--upsert` calls `upsert` for each batch, as programs do that render points themselves; without it, `upload_points` does all. `--parallel`
is for `upload_points` alone. `--settle` waits for the status green too.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from front import cpu_by_thread, settle  # noqa: E402
from harness.server import Server  # noqa: E402

NAME = "uploaded"


def metric(http, name):
    _, _, text = http.raw("GET", "/metrics")
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$".encode(), text, re.MULTILINE)
    return sum(float(value) for value in values)


def points(vectors):
    for number, vector in enumerate(vectors):
        yield models.PointStruct(id=number, vector=vector.tolist())


def upsert(client, vectors, batch):
    for first in range(0, len(vectors), batch):
        some = vectors[first : first + batch].tolist()
        listed = [models.PointStruct(id=first + at, vector=vector) for at, vector in enumerate(some)]
        client.upsert(NAME, listed, wait=False)


def upload(client, vectors, arguments):
    if arguments.upsert:
        upsert(client, vectors, arguments.batch)
    elif arguments.columns:
        client.upload_collection(NAME, vectors, batch_size=arguments.batch, parallel=arguments.parallel)
    else:
        client.upload_points(NAME, points(vectors), batch_size=arguments.batch, parallel=arguments.parallel)


def jobs(http):
    """Times and seconds of background jobs, by kind."""
    _, _, text = http.raw("GET", "/metrics")
    found = re.findall(rb'^ramlet_job(?:s|_seconds)_total{([^}]*)} (\S+)$', text, re.MULTILINE)
    return [f"{labels.decode()} {value.decode()}" for labels, value in found]


def green(http):
    while http.result("GET", f"/collections/{NAME}")["status"] != "green":
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--parallel", type=int, default=1)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--upsert", action="store_true")
    parser.add_argument("--columns", action="store_true", help="upload_collection of an array")
    parser.add_argument("--settle", action="store_true")
    parser.add_argument("--jobs", action="store_true", help="background jobs too")
    parser.add_argument("--work", help="directory for the server's data [default: a temporary one]")
    arguments = parser.parse_args()
    vectors = np.random.default_rng(1).standard_normal((arguments.points, arguments.dim), dtype=np.float32)
    with tempfile.TemporaryDirectory(dir=arguments.work) as work, Server(Path(work) / "data", memory=arguments.memory) as server:
        pid, http = server.process.pid, server.http()
        settle(pid)
        client = QdrantClient(host="127.0.0.1", port=server.port, grpc_port=server.grpc_port, prefer_grpc=not arguments.rest, timeout=120)
        client.create_collection(NAME, vectors_config=models.VectorParams(size=arguments.dim, distance=models.Distance.COSINE))
        before, clock, begun = cpu_by_thread(pid), sum(os.times()[:4]), time.monotonic()
        upload(client, vectors, arguments)
        wall, cpu = time.monotonic() - begun, sum(os.times()[:4]) - clock
        spent = {name: round(nanos / 1e9, 2) for name, nanos in (cpu_by_thread(pid) - before).most_common() if nanos > 10_000_000}
        figures = {
            "points": arguments.points, "batch": arguments.batch, "parallel": arguments.parallel, "wall_s": round(wall, 1), "client_cpu_s": round(cpu, 1),
            "waited_s": round(wall - cpu, 1), "server_cpu_s": spent,
            "syncs": int(metric(http, "ramlet_log_sync_seconds_count")), "sync_s": round(metric(http, "ramlet_log_sync_seconds_sum"), 1),
            "stalls": int(metric(http, "ramlet_write_stalls_total")), "stalled_s": round(metric(http, "ramlet_write_stall_seconds_total"), 1),
        }  # fmt: skip
        if arguments.jobs:
            figures["jobs"] = jobs(http)
        if arguments.settle:
            green(http)
            figures["green_after_s"] = round(time.monotonic() - begun, 1)
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
