"""`ramlet serve --restore`: a server that answers, and takes writes, while its directory comes out of a store."""

import json
import os
import random
import subprocess
import time

import pytest

from harness.cgroup import CannotMake, MemoryCgroup
from harness.s3 import S3
from harness.server import Server, binary

DIM, COUNT = 64, 40_000
URL = "s3://bucket/backups"


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """A store with a backup of a collection, and what it answers."""
    with S3() as s3:
        directory = tmp_path_factory.mktemp("pushed")
        with Server(directory / "data", arguments=["--no-probe"]) as server:
            http = server.http()
            # What goes to RAM is fetched before a server answers.
            vectors = {"size": DIM, "distance": "Euclid", "on_disk": True}
            http.call("PUT", "/collections/docs", {"vectors": vectors, "optimizers_config": {"indexing_threshold": 1}})
            http.call("PUT", "/collections/docs/index", {"field_name": "n", "field_schema": "integer"})
            rng = random.Random(1)
            for start in range(0, COUNT, 1000):
                points = [{"id": i, "vector": [b / 255 for b in rng.randbytes(DIM)], "payload": {"n": i, "t": "x" * (i % 90)}} for i in range(start, start + 1000)]
                http.call("PUT", "/collections/docs/points?wait=true", {"points": points})
            until = time.monotonic() + 60
            while http.call("GET", "/collections/docs")["result"]["status"] != "green" and time.monotonic() < until:
                time.sleep(0.2)
            http.close()
            server.stop()
            done = subprocess.run([binary(), "store", "push", server.data, URL], env=s3.environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            server.start()
            yield s3, answers(server)


def answers(server):
    http = server.http()
    rng = random.Random(2)
    got = [http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"]]
    for _ in range(10):
        body = {"query": [b / 255 for b in rng.randbytes(DIM)], "limit": 10, "with_payload": True, "params": {"exact": True}}
        got.append(http.call("POST", "/collections/docs/points/query", body)["result"])
        body = {"filter": {"must": [{"key": "n", "match": {"value": rng.randrange(COUNT)}}]}, "with_vector": True}
        got.append(http.call("POST", "/collections/docs/points/scroll", body)["result"]["points"])
    http.close()
    return got


def restoring(pushed, data, *more, **options):
    return Server(data, arguments=["--no-probe", "--restore", URL, *more], environment=pushed[0].environment, **options)


def is_restoring(server):
    return (server.data / "restore.json").exists()


def wait_whole(server):
    until = time.monotonic() + 60
    while is_restoring(server):
        assert time.monotonic() < until and server.alive(), server.log()
        time.sleep(0.05)


def put(server, ids):
    http = server.http()
    points = [{"id": i, "vector": [-9.0] * DIM, "payload": {"n": -i}} for i in ids]
    http.call("PUT", "/collections/docs/points?wait=true", {"points": points})
    http.close()


@pytest.fixture
def slow(pushed):
    pushed[0].seconds = 0.15
    yield pushed
    pushed[0].seconds = 0


def begun(slow, data):
    """A server that answers, of whose files most are missing for a while: they come one by one, a second each, also where the machine is busy."""
    server = restoring(slow, data).start()
    slow[0].seconds = 1
    return server


def test_it_answers_before_all_is_there(slow, tmp_path):
    s3, expected = slow
    server = begun(slow, tmp_path / "r")
    try:
        http = server.http()
        assert http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"] == COUNT
        assert http.call("GET", "/collections/docs/points/77")["result"]["payload"]["n"] == 77
        http.close()
        assert is_restoring(server), server.log()
        held = sum(path.stat().st_blocks * 512 for path in server.data.rglob("*") if path.is_file())
        whole = sum(path.stat().st_size for path in server.data.rglob("*") if path.is_file())
        assert held < whole, (held, whole)
        # Writes go on, also over a kill in the middle; the flag isn't needed any more.
        put(server, range(COUNT, COUNT + 20))
        assert is_restoring(server), server.log()
        server.kill()
        s3.seconds = 0
        server.arguments = ["--no-probe"]
        server.start()
        assert answers(server)[1:] == expected[1:]
        http = server.http()
        assert http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"] == COUNT + 20
        http.close()
        wait_whole(server)
        assert "restored: " in server.log(), server.log()
        assert server.stop() == 0
        code, said = server.check()
        assert code == 0 and "0 problems" in said, said
        # Without the store.
        server.environment = {}
        server.start()
        assert answers(server)[1:] == expected[1:]
        # The flag is for an empty directory.
        server.arguments = ["--no-probe", "--restore", URL]
        server.restart()
        assert "has data: nothing is restored" in server.log(), server.log()
    finally:
        server.kill()


def test_merges_and_deletes_meanwhile(slow, tmp_path):
    server = begun(slow, tmp_path / "r")
    try:
        http = server.http()
        http.call("POST", "/collections/docs/points/delete?wait=true", {"filter": {"must": [{"key": "n", "range": {"lt": COUNT // 2}}]}})
        http.call("PUT", "/collections/docs/index?wait=true", {"field_name": "t", "field_schema": "keyword"})
        assert http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"] == COUNT // 2
        slow[0].seconds = 0
        http.close()
        wait_whole(server)
        server.restart()
        http = server.http()
        assert http.call("POST", "/collections/docs/points/count", {"exact": True})["result"]["count"] == COUNT // 2
        http.close()
        assert server.stop() == 0
        code, said = server.check()
        assert code == 0 and "0 problems" in said, said
    finally:
        server.kill()


def test_a_store_that_is_away_and_comes_back(slow, tmp_path):
    s3, expected = slow
    server = begun(slow, tmp_path / "r")
    try:
        objects = {key: value for key, value in s3.objects.items() if "/objects/" in key}
        broken = {key: (body[:-1] + bytes([body[-1] ^ 1]), tag) for key, (body, tag) in objects.items()}
        assert is_restoring(server)
        s3.objects.update(broken)
        s3.seconds = 0
        http = server.http()
        body = {"query": [0.5] * DIM, "limit": 10, "with_vector": True, "with_payload": True, "params": {"exact": True}}
        status, _, answer = http.raw("POST", "/collections/docs/points/query", json.dumps(body).encode())
        # What is there is right; what isn't there isn't made up.
        assert status == 200 or b"its bytes are others than were written" in answer, answer
        http.close()
        assert is_restoring(server)
        s3.objects.update(objects)
        server.restart()
        assert answers(server) == expected
        wait_whole(server)
    finally:
        s3.objects.update(objects)
        server.kill()


def test_in_64_mb(pushed, tmp_path):
    try:
        group = MemoryCgroup(64_000_000)
    except CannotMake as reason:
        pytest.skip(f"no memory cgroup can be made here: {reason}")
    with group:
        server = restoring(pushed, tmp_path / "r", memory=None, cgroup=group).start()
        try:
            assert answers(server) == pushed[1]
            wait_whole(server)
            assert answers(server) == pushed[1] and server.alive()
            assert server.stop() == 0
        finally:
            server.kill()


def test_what_is_refused(pushed, tmp_path):
    for url, why in [("s3://bucket/nothing", "is empty"), ("s3://elsewhere/x", "NoSuchBucket"), ("nonsense", "a store is")]:
        server = Server(tmp_path / "r", arguments=["--restore", url], environment=pushed[0].environment)
        with pytest.raises(RuntimeError, match=why):
            server.start()
        assert not list((tmp_path / "r").glob("CATALOG*")), url
    os.makedirs(tmp_path / "half")
    state = {"url": "s3://bucket/other", "store": "x", "backup": 1, "begun": False}
    (tmp_path / "half" / "restore.json").write_text(json.dumps(state))
    with pytest.raises(RuntimeError, match="is being restored from s3://bucket/other"):
        restoring(pushed, tmp_path / "half").start()
