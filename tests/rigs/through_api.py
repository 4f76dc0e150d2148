#!/usr/bin/env python3
"""A million vectors in a server of 135 MB, asked through REST and gRPC by clients on the same cores.

    RAMLET_BIN=target/release/ramlet python tests/rigs/through_api.py --set /data/hard [--seconds 10] [--keep /data/loaded]

`--set` is the prefix of a set that `ramlet-bench make` wrote: `.base.f32`, `.query.f32`, `.gt.i32`. The server runs in a memory
cgroup of its limit. Vectors come over gRPC by the official client, as benchmarks send them; with `--keep` the loaded directory is
used again. Then, for each API, effort (`hnsw_ef`, or none) and number of connections, two loads:

- `raw`: requests made beforehand, by processes that only send, wait and keep what came: little CPU of the client's own;
- `client`: processes with an official client each, as vector-db-benchmark does it.

Of each: requests a second, recall@k, the milliseconds of the client that waited, and CPU of the server and of the clients apart, by
request. Both shared the machine's cores, so cores / (server + clients) is what they do when nothing else runs: `quiet rps`.
"""

import argparse
import json
import multiprocessing as mp
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from socket import create_connection

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.cgroup import MemoryCgroup  # noqa: E402
from harness.server import Server  # noqa: E402

COLLECTION = "through_api"


class Data:
    """Vectors, queries and their true neighbours."""

    def __init__(self, prefix, dim, points=None):
        read = lambda kind, dtype: np.fromfile(f"{prefix}.{kind}", dtype)  # noqa: E731
        self.base = np.memmap(f"{prefix}.base.f32", np.float32, "r").reshape(-1, dim)[:points]
        self.queries = read("query.f32", np.float32).reshape(-1, dim)
        cut = f"{prefix}.gt-{points}.i32" if points else f"{prefix}.gt.i32"
        if not Path(cut).exists():
            nearest(self.base, self.queries, 100).tofile(cut)
        self.truth = np.fromfile(cut, np.int32).reshape(len(self.queries), -1)

    def recall(self, at, ids, k):
        return len(set(ids) & set(self.truth[at][:k].tolist())) / k


def nearest(base, queries, k):
    """The k nearest by cosine of each query, by comparing everything."""
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    queries, best = unit(queries), None
    for first in range(0, len(base), 50_000):
        scores = queries @ unit(base[first : first + 50_000]).T
        ids = np.broadcast_to(np.arange(first, first + scores.shape[1], dtype=np.int32), scores.shape)
        if best:
            scores, ids = np.hstack([best[0], scores]), np.hstack([best[1], ids])
        top = np.argpartition(-scores, k, axis=1)[:, :k]
        best = np.take_along_axis(scores, top, 1), np.take_along_axis(ids, top, 1)
    order = np.argsort(-best[0], axis=1)
    return np.take_along_axis(best[1], order, 1)


def bytes_of(text):
    """`135MB` in bytes."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6)):
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def upload(server, data, parallel):
    """Seconds to send all, and until the collection is green."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(host="127.0.0.1", port=server.port, grpc_port=server.grpc_port, prefer_grpc=True, timeout=600)
    size = models.VectorParams(size=data.base.shape[1], distance=models.Distance.COSINE)
    client.create_collection(COLLECTION, vectors_config=size)
    start = time.monotonic()
    client.upload_collection(COLLECTION, vectors=data.base, ids=range(len(data.base)), batch_size=1024, parallel=parallel)
    sent = time.monotonic() - start
    green = 0
    # The status may be green for a moment before the optimizer has seen the last points.
    while green < 3:
        time.sleep(1)
        green = green + 1 if client.get_collection(COLLECTION).status == models.CollectionStatus.GREEN else 0
    assert client.count(COLLECTION).count == len(data.base)
    return sent, time.monotonic() - start


def rest_raw(server, data, k, ef):
    """`ask(n)`: ids for query n, over one connection of HTTP/1.1."""
    params = {"params": {"hnsw_ef": ef}} if ef else {}
    requests = []
    for query in data.queries:
        body = json.dumps({"query": [float(f"{x:.7g}") for x in query], "limit": k, **params}).encode()
        head = f"POST /collections/{COLLECTION}/points/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        requests.append(head.encode() + body)
    sock = create_connection(("127.0.0.1", server["port"]))

    def ask(n):
        sock.sendall(requests[n])
        answer = b""
        while True:
            answer += sock.recv(65536)
            head, _, rest = answer.partition(b"\r\n\r\n")
            at = head.lower().find(b"content-length: ")
            if at >= 0 and len(rest) >= int(head[at + 16 :].split(b"\r\n")[0]):
                assert head.startswith(b"HTTP/1.1 200"), answer
                return rest

    return ask, lambda answer: [point["id"] for point in json.loads(answer)["result"]["points"]]


def grpc_raw(server, data, k, ef):
    import grpc
    from qdrant_client import grpc as pb

    requests = []
    for query in data.queries:
        dense = pb.VectorInput(dense=pb.DenseVector(data=query.tolist()))
        message = pb.QueryPoints(collection_name=COLLECTION, query=pb.Query(nearest=dense), limit=k)
        if ef:
            message.params.CopyFrom(pb.SearchParams(hnsw_ef=ef))
        requests.append(message.SerializeToString())
    method = grpc.insecure_channel(f"127.0.0.1:{server['grpc_port']}").unary_unary("/qdrant.Points/Query")
    return lambda n: method(requests[n]), lambda answer: [p.id.num for p in pb.QueryResponse.FromString(answer).result]


def official(prefer_grpc):
    def asker(server, data, k, ef):
        from qdrant_client import QdrantClient, models

        client = QdrantClient(host="127.0.0.1", port=server["port"], grpc_port=server["grpc_port"], prefer_grpc=prefer_grpc, timeout=60)
        params = models.SearchParams(hnsw_ef=ef) if ef else None
        queries = [query.tolist() for query in data.queries]
        ask = lambda n: client.query_points(COLLECTION, query=queries[n], limit=k, search_params=params)  # noqa: E731
        return ask, lambda answer: [point.id for point in answer.points]

    return asker


LOADS = {
    ("REST", "raw"): rest_raw,
    ("gRPC", "raw"): grpc_raw,
    ("REST", "client"): official(False),
    ("gRPC", "client"): official(True),
}


def connection(load, server, data, k, ef, at, step, clock, results):
    """A process: one connection that asks and waits, from `clock`'s barrier until its time is over."""
    data = Data(*data)
    ask, ids_of = LOADS[load](server, data, k, ef)
    n = at * 97 % len(data.queries)
    for _ in range(30):
        ask(n)
    barrier, seconds = clock
    barrier.wait()
    used = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])  # noqa: E731
    start, cpu, waits, answers = time.monotonic(), used(), [], {}
    while True:
        asked = time.monotonic()
        if asked - start >= seconds:
            break
        answers[n] = ask(n)
        waits.append(time.monotonic() - asked)
        n = (n + step) % len(data.queries)
    took, cpu = time.monotonic() - start, used() - cpu
    recalls = [data.recall(n, ids_of(answer), k) for n, answer in answers.items()]
    results.put((len(waits), took, cpu, waits, sum(recalls), len(recalls)))


def cpu_of(pid):
    """Seconds on a core, of all threads that live."""
    return sum(int((t / "schedstat").read_text().split()[0]) for t in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def measure(server, load, args, ef, connections):
    at = {"port": server.port, "grpc_port": server.grpc_port}
    spawn = mp.get_context("spawn")
    barrier, results = spawn.Barrier(connections + 1), spawn.Queue()
    clock = (barrier, args.seconds)
    known = (load, at, (args.set, args.dim, args.points), args.k, ef)
    processes = [spawn.Process(target=connection, args=(*known, n, connections, clock, results)) for n in range(connections)]
    for process in processes:
        process.start()
    barrier.wait()
    before = cpu_of(server.process.pid)
    got = [results.get() for _ in processes]
    spent = cpu_of(server.process.pid) - before
    for process in processes:
        process.join()
    requests = sum(g[0] for g in got)
    waits = np.sort(np.concatenate([g[3] for g in got])) * 1000
    server_us, client_us = spent / requests * 1e6, sum(g[2] for g in got) / requests * 1e6
    return {
        "api": load[0],
        "load": load[1],
        "hnsw_ef": ef,
        "connections": connections,
        "requests": requests,
        "rps": round(sum(g[0] / g[1] for g in got)),
        "recall": round(sum(g[4] for g in got) / sum(g[5] for g in got), 4),
        "ms_p50": round(float(waits[len(waits) // 2]), 2),
        "ms_p99": round(float(waits[len(waits) * 99 // 100]), 2),
        "server_us": round(server_us, 1),
        "client_us": round(client_us, 1),
        "quiet_rps": round(os.cpu_count() * 1e6 / (server_us + client_us)),
        "server_cores_rps": round(os.cpu_count() * 1e6 / server_us),
    }


def numbers(text):
    return [None if part == "default" else int(part) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--set", required=True, help="prefix of the set's files")
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--points", type=int, help="only the first so many vectors; their truth is kept beside the set")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--memory", default="135MB")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--ef", type=numbers, default=numbers("default,16,32,64,128,256,512"))
    parser.add_argument("--connections", type=numbers, default=numbers("1,8,16,32"))
    parser.add_argument("--loads", default="REST:raw,gRPC:raw,REST:client,gRPC:client")
    parser.add_argument("--parallel", type=int, default=1, help="processes that upload")
    parser.add_argument("--keep", type=Path, help="directory of the loaded server, used again when it is there")
    parser.add_argument("--json", type=Path, help="a file that the figures are appended to, a line each")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, MemoryCgroup(bytes_of(args.memory)) as group:
        place = args.keep or Path(scratch) / "data"
        loaded = place.exists()
        with Server(place, args.memory, cgroup=group) as server:
            if not loaded:
                sent, green = upload(server, Data(args.set, args.dim, args.points), args.parallel)
                print(f"upload {sent:.1f} s, green after {green:.1f} s, peak {(group.peak() or 0) / 1e6:.1f} MB", flush=True)
            for load in [tuple(load.split(":")) for load in args.loads.split(",")]:
                for ef in args.ef:
                    for connections in args.connections:
                        row = measure(server, load, args, ef, connections)
                        print(
                            "{api} {load}, hnsw_ef {hnsw_ef}, {connections} connections: {rps:,} rps at {recall:.3f}, p50 {ms_p50} ms, p99 {ms_p99} ms; "
                            "server {server_us} us, client {client_us} us; quiet rps {quiet_rps:,}, {server_cores_rps:,} without clients".format(**row),
                            flush=True,
                        )
                        if args.json:
                            with args.json.open("a") as out:
                                out.write(json.dumps(row) + "\n")
            print(f"peak {(group.peak() or 0) / 1e6:.1f} MB, {group.oom_kills()} killed for memory")


if __name__ == "__main__":
    main()
