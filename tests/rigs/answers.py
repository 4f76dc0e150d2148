#!/usr/bin/env python3
"""Answers of every size, over REST and gRPC: what they take on a loopback and on a link, and whether they come in small budgets.

    RAMLET_BIN=target/release/ramlet .venv/bin/python tests/rigs/answers.py network
    RAMLET_BIN=target/release/ramlet .venv/bin/python tests/rigs/answers.py budgets --memory 16MB,32MB,64MB,135MB,512MB
    RAMLET_BIN=target/release/ramlet .venv/bin/python tests/rigs/answers.py stopped --memory 16MB,32MB,64MB,135MB,512MB

`network` makes namespaces of its own (root): a server and a client that share a loopback, and two that are joined by a cable with an
MTU of 1,500. A client asks for pages of 1 KB to 30 MB; delayed confirmations are the kernel's count in the client's namespace.
`budgets` asks in each budget for points of each size, in each way, plain and packed, over each protocol, while another client asks for
little. `stopped` asks beside two that have stopped reading an answer of the same kind, and looks what is held when they have gone: plain and
encrypted. `tests/e2e/test_answers.py` takes samples of these grids.
"""

import argparse
import base64
import gzip
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import stopped  # noqa: E402
from harness.http import Http  # noqa: E402
from harness.netns import Namespace  # noqa: E402
from harness.server import Server  # noqa: E402

COLLECTION, POINT_BYTES = "answers", 1000
COUNTS = [1, 10, 64, 83, 300, 820, 1_000, 5_000, 30_000]


def text(rng, length):
    return base64.b64encode(rng.randbytes(length * 3 // 4 + 1)).decode()[:length]


def fill(http, points, size, name=COLLECTION):
    """`points` of about `size` bytes each, as JSON; whose places in a group alternate."""
    http.call("PUT", f"/collections/{name}", {"vectors": {"size": 2, "distance": "Dot"}})
    rng = random.Random(1)
    batch = max(1, min(500, 200_000 // size))
    for first in range(0, points, batch):
        some = [{"id": n, "vector": [1, n], "payload": {"group": n % 4, "text": text(rng, size - 50)}} for n in range(first, min(first + batch, points))]
        http.call("PUT", f"/collections/{name}/points?wait=true", {"points": some})


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


# What is asked for in the grid: points of so many bytes, so many of them.
SIZES = [(1_000, 64), (4_000, 300), (18_000, 300), (30_000, 70), (60_000, 300), (200_000, 20), (1_000_000, 4)]
WAYS = ["scroll", "query", "retrieve", "batch", "groups"]
# Over REST all are sent while they are read: no size is too large for them. A message of gRPC begins with its length.
# Longer than any answer takes here: who waits so long waits for itself.
TIMEOUT_S = 20


def rest_body(way, count):
    """(path behind the collection, body)"""
    query = {"query": [1, 0.5], "limit": count, "with_payload": True}
    return {
        "scroll": ("points/scroll", {"limit": count, "with_payload": True}),
        "query": ("points/query", query),
        "retrieve": ("points", {"ids": list(range(count)), "with_payload": True}),
        "batch": ("points/query/batch", {"searches": [{**query, "limit": (count + 1) // 2}, {**query, "limit": count // 2}]}),
        "groups": ("points/query/groups", {"query": [1, 0.5], "group_by": "group", "limit": 4, "group_size": (count + 3) // 4, "with_payload": True}),
    }[way]


def rest_points(way, answer):
    result = json.loads(answer)["result"]
    if way == "batch":
        return [point for one in result for point in one["points"]]
    if way == "groups":
        return [point for group in result["groups"] for point in group["hits"]]
    return result if way == "retrieve" else result["points"]


class Rest:
    """Asks over HTTP/1.1, encrypted where there is a context."""

    def __init__(self, server, context=None):
        self.server, self.context = server, context

    def open(self):
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.server.port, timeout=TIMEOUT_S, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=TIMEOUT_S)

    def ask(self, name, way, count, packed):
        """(status, points and their payloads' bytes, what was said if it was refused)"""
        path, body = rest_body(way, count)
        headers = {"content-type": "application/json", **({"accept-encoding": "gzip"} if packed else {})}
        connection = self.open()
        try:
            connection.request("POST", f"/collections/{name}/{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.headers.get("content-encoding") == "gzip":
                content = gzip.decompress(content)
        finally:
            connection.close()
        if answer.status != 200:
            return answer.status, (0, 0), content.decode()
        points = rest_points(way, content)
        return 200, (len(points), sum(len(point["payload"]["text"]) for point in points)), ""


class Http2:
    """The same over HTTP/2, as the library behind the official client speaks it."""

    def __init__(self, server):
        import httpx

        self.client = httpx.Client(base_url=server.url, http1=False, http2=True, timeout=TIMEOUT_S)

    def ask(self, name, way, count, packed):
        path, body = rest_body(way, count)
        answer = self.client.post(f"/collections/{name}/{path}", json=body, headers={"accept-encoding": "gzip" if packed else "identity"})
        if answer.status_code != 200:
            return answer.status_code, (0, 0), answer.text
        points = rest_points(way, answer.content)
        return 200, (len(points), sum(len(point["payload"]["text"]) for point in points)), ""


class Grpc:
    """The same over gRPC; codes as REST has them."""

    def __init__(self, server, credentials=None):
        import grpc

        options = [("grpc.max_receive_message_length", -1)]
        at = f"localhost:{server.grpc_port}"
        self.channels = {
            packed: grpc.secure_channel(at, credentials, options, compression) if credentials else grpc.insecure_channel(at, options, compression)
            for packed, compression in ((False, None), (True, grpc.Compression.Gzip))
        }

    def ask(self, name, way, count, packed):
        import grpc
        from qdrant_client import grpc as pb

        method, request = message(name, way, count)
        call = getattr(pb.PointsStub(self.channels[packed]), method)
        try:
            result = call(request, timeout=TIMEOUT_S).result
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            waits = "retry-after" in dict(error.trailing_metadata() or ()) or "retry-after" in dict(error.initial_metadata() or ())
            return 429 if waits else 413, (0, 0), error.details()
        points = {
            "batch": lambda: [point for one in result for point in one.result],
            "groups": lambda: [point for group in result.groups for point in group.hits],
        }.get(way, lambda: result)()
        return 200, (len(points), sum(len(point.payload["text"].string_value) for point in points)), ""


def message(name, way, count):
    """(method, request) of gRPC"""
    from qdrant_client import grpc as pb

    payload = pb.WithPayloadSelector(enable=True)
    near = pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1, 0.5])))

    def query(limit):
        return pb.QueryPoints(collection_name=name, query=near, limit=limit, with_payload=payload)

    return {
        "scroll": lambda: ("Scroll", pb.ScrollPoints(collection_name=name, limit=count, with_payload=payload)),
        "query": lambda: ("Query", query(count)),
        "retrieve": lambda: ("Get", pb.GetPoints(collection_name=name, ids=[pb.PointId(num=n) for n in range(count)], with_payload=payload)),
        "batch": lambda: ("QueryBatch", pb.QueryBatchPoints(collection_name=name, query_points=[query((count + 1) // 2), query(count // 2)])),
        "groups": lambda: (
            "QueryGroups",
            pb.QueryPointGroups(collection_name=name, query=near, group_by="group", limit=4, group_size=(count + 3) // 4, with_payload=payload),
        ),
    }[way]()


class Others(threading.Thread):
    """Somebody else, who asks for little again and again; counts what is refused, by the words of the refusal."""

    def __init__(self, server, name):
        super().__init__(daemon=True)
        self.http, self.name, self.going, self.refused = server.http(timeout=TIMEOUT_S), name, True, Counter()

    def run(self):
        body = json.dumps({"query": [1, 2], "limit": 3})
        while self.going:
            try:
                status, _, answer = self.http.raw("POST", f"/collections/{self.name}/points/query", body)
                if status != 200:
                    self.refused[f"{status} {answer.decode()[:300]}"] += 1
            except OSError as error:
                self.refused[repr(error)] += 1
            time.sleep(0.002)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.join()


def judged(way, api, size, count, answer):
    """What is wrong with an answer; empty if nothing is."""
    status, (points, length), said = answer
    if status == 200:
        whole = count if way != "groups" else 4 * ((count + 3) // 4)
        wanted = min(count, whole)
        return "" if (points, length) == (wanted, wanted * (size - 50)) else f"{points} points of {length} bytes"
    # A whole answer may be larger than the budget holds: then it is said at once, for good, and how to ask for less.
    if status == 413 and api == "grpc" and "ask for fewer points" in said:
        return ""
    return f"{status}: {said[:200]}"


def held(http):
    """Bytes that answers hold now, by the accounts' names."""
    consumers = http.result("GET", "/memory")["ledger"]["consumers"]
    return {one["name"]: one["used_bytes"] for one in consumers if one["name"] in ("responses", "streams")}


def load(server, sizes):
    """Collections of these; what is too large for the budget's writers is left out."""
    from harness.http import Answer

    http, there = server.http(), []
    for size, count in sizes:
        try:
            fill(http, count, size, f"of{size}")
            there.append((size, count))
        except Answer as refused:
            assert refused.status == 413, refused
            http.call("DELETE", f"/collections/of{size}")
    fill(http, 3, 200, "little")
    return there


def grid(server, sizes, protocols, told, ways=WAYS):
    """Asks for everything; `told` gets each case and what is wrong with it."""
    for size, count in load(server, sizes):
        for api, asker in protocols.items():
            for way in ways:
                for packed in (False, True):
                    with Others(server, "little") as others:
                        started = time.perf_counter()
                        try:
                            answer = asker.ask(f"of{size}", way, count, packed)
                            wrong = judged(way, api, size, count, answer)
                        except Exception as error:  # noqa: BLE001  a case that fails doesn't end the grid
                            answer, wrong = ("none",), repr(error)[:300]
                        took = time.perf_counter() - started
                    wrong = wrong or (f"others got {dict(others.refused)}" if others.refused else "")
                    told(f"{way:8} {api:5} {'gzip' if packed else 'plain':5} {count:4} x {size:9,}", answer[0], 1e3 * took, wrong)


# Of each kind of answer, one that is more than two portions in every budget; of messages of gRPC one that is no quarter of the smallest.
STOPPED, STOPPED_MESSAGE = (18_000, 300), (1_000, 100)
SNAPSHOT = "snapshot"


def stop(server, api, way, packed, context=None):
    """A client that has stopped reading an answer."""
    size, count = STOPPED_MESSAGE if api == "grpc" else STOPPED
    name = f"of{size}"
    if api == "grpc":
        method, request = message(name, way, count)
        return stopped.grpc(server.grpc_port, f"Points/{method}", request.SerializeToString(), packed, context)
    client = stopped.http1 if api == "rest" else stopped.http2
    if way == SNAPSHOT:
        taken = server.http().result("GET", f"/collections/{name}/snapshots")[0]["name"]
        return client(server.port, "GET", f"/collections/{name}/snapshots/{taken}", packed=packed, context=context)
    path, body = rest_body(way, count)
    return client(server.port, "POST", f"/collections/{name}/{path}", body, packed, context)


def downloaded(server):
    """What is wrong with a snapshot that is fetched; empty if nothing is."""
    http = server.http(timeout=TIMEOUT_S)
    path = f"/collections/of{STOPPED[0]}/snapshots"
    [listed] = http.result("GET", path)
    status, _, content = http.raw("GET", f"{path}/{listed['name']}")
    http.close()
    return "" if (status, len(content)) == (200, listed["size"]) else f"{status}: {len(content)} bytes of {listed['size']}"


def released(server):
    """What answers hold that are over; empty once that is nothing."""
    http = server.http()
    for _ in range(500):
        bytes_held = held(http)
        if bytes_held["streams"] == 0 and bytes_held["responses"] < 64 << 10:
            return ""
        time.sleep(0.02)
    return f"answers hold {bytes_held}"


def beside_stopped(server, cases, asker, told, context=None):
    """Asks as (api, way, packed) says beside two that have stopped reading such an answer; `told` gets each case and what is wrong with it."""
    if not server.http().result("GET", f"/collections/of{STOPPED[0]}/snapshots"):
        server.http().result("POST", f"/collections/of{STOPPED[0]}/snapshots")
    for api, way, packed in cases:
        started, gone = time.perf_counter(), []
        try:
            gone = [stop(server, api, way, packed, context) for _ in range(2)]
            wrong = "" if {one.status for one in gone} == {200} else f"stopped at {[one.status for one in gone]}"
            with Others(server, "little") as others:
                if way == SNAPSHOT:
                    wrong = wrong or downloaded(server)
                else:
                    size, count = STOPPED
                    wrong = wrong or judged(way, "rest", size, count, asker.ask(f"of{size}", way, count, packed))
            wrong = wrong or (f"others got {dict(others.refused)}" if others.refused else "")
        except Exception as error:  # noqa: BLE001  a case that fails doesn't end the grid
            wrong = repr(error)[:300]
        for one in gone:
            one.go()
        told(f"{way:8} {api:5} {'gzip' if packed else 'plain':5}", 1e3 * (time.perf_counter() - started), wrong or released(server))


def all_stopped():
    ways = [(api, way) for api in ("rest", "http2", "grpc") for way in [*WAYS, SNAPSHOT] if (api, way) != ("grpc", SNAPSHOT)]
    return [(api, way, packed) for api, way in ways for packed in (False, True)]


def stopped_readers(arguments):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
    from test_tls import Certificates, Encrypted

    for memory in arguments.memory.split(","):
        with tempfile.TemporaryDirectory() as directory:
            certificates = Certificates(Path(directory))
            for kind, server, context in (
                ("plain", Server(Path(directory) / "plain", memory=memory), None),
                ("tls", Encrypted(Path(directory) / "tls", certificates, memory=memory), certificates.trusting()),
            ):

                def told(case, took_ms, wrong, kind=kind):
                    print(f"{arguments.name:8} {memory:>6} {kind:5} {case}: {took_ms:8.1f} ms {wrong or 'ok'}", flush=True)

                with server:
                    load(server, [STOPPED, STOPPED_MESSAGE])
                    beside_stopped(server, all_stopped(), Rest(server, context and certificates.trusting()), told, context)


def budgets(arguments):
    for memory in arguments.memory.split(","):
        with tempfile.TemporaryDirectory() as directory, Server(Path(directory) / "data", memory=memory) as server:
            protocols = {"rest": Rest(server), "http2": Http2(server), "grpc": Grpc(server)}

            def told(case, status, took_ms, wrong):
                print(f"{arguments.name:8} {memory:>6} {case}: {status} {took_ms:8.1f} ms {wrong}", flush=True)

            grid(server, SIZES, protocols, told)
            print(f"{arguments.name:8} {memory:>6} answers hold afterwards: {held(server.http())}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["network", "budgets", "stopped", "client"])
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
        {"network": network, "budgets": budgets, "stopped": stopped_readers}[arguments.what](arguments)


if __name__ == "__main__":
    main()
