"""A collection that can't be opened stays closed, says why, and keeps no other from being served."""

import json
import subprocess
import time

import pytest

import conftest
from harness.server import binary

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs a server")

VECTORS = {"vectors": {"size": 2, "distance": "Dot"}}


def fill(http, name, points=3_000):
    http.result("PUT", f"/collections/{name}", VECTORS)
    for first in range(0, points, 1_000):
        some = [{"id": n, "vector": [n, 1], "payload": {"n": n}} for n in range(first, first + 1_000)]
        http.result("PUT", f"/collections/{name}/points?wait=true", {"points": some})
    # Small enough that what is written becomes a segment soon.
    http.result("PATCH", f"/collections/{name}", {"optimizers_config": {"indexing_threshold": 1}})


def damage_manifest(directory):
    newest = max(p for p in directory.glob("MANIFEST-*") if p.suffix != ".old")
    raw = bytearray(newest.read_bytes())
    raw[raw.index(b"{") + 1] ^= 0x55
    newest.write_bytes(raw)


def damage_log(directory):
    """A group that was acknowledged, amid others."""
    newest = max(directory.glob("log-*"))
    raw = bytearray(newest.read_bytes())
    raw[4096 + 40] ^= 0x55
    newest.write_bytes(raw)


def delete_log(directory):
    max(directory.glob("log-*")).unlink()


def delete_newest_manifest(directory):
    max(p for p in directory.glob("MANIFEST-*") if p.suffix != ".old").unlink()


def delete_manifests(directory):
    for path in directory.glob("MANIFEST*"):
        path.unlink()


def delete_a_segment_file(directory):
    files = [p for p in directory.iterdir() if not p.name.startswith(("MANIFEST", "log", "LOG", "tmp"))]
    max(files, key=lambda path: path.stat().st_size).unlink()


def directory_of(server, http, name):
    """The directory of a collection: the only one that its deletion would remove, told by what is in its manifest's settings."""
    marked = http.result("GET", f"/collections/{name}")["config"]["params"]["vectors"]["size"]
    assert marked == 2
    ids = sorted(path for path in server.data.iterdir() if path.is_dir() and any(path.glob("MANIFEST*")))
    return ids[["a-precious", "b-damaged"].index(name)]


@pytest.mark.parametrize("damage", [damage_manifest, delete_newest_manifest, delete_manifests, damage_log, delete_log, delete_a_segment_file])
def test_one_damaged_collection(own_server, damage):
    server = own_server
    http = server.http()
    for name in ("a-precious", "b-damaged"):
        fill(http, name)
    http.result("POST", "/collections/aliases", {"actions": [{"create_alias": {"collection_name": "b-damaged", "alias_name": "other"}}]})
    for _ in range(300):
        if http.result("GET", "/collections/b-damaged")["indexed_vectors_count"]:
            break
        time.sleep(0.1)
    directory = directory_of(server, http, "b-damaged")
    # Something that is in its log alone.
    for n in range(3):
        http.result("PUT", "/collections/b-damaged/points?wait=true", {"points": [{"id": n, "vector": [n, 2]}]})
    http.close()
    server.stop()
    damage(directory)
    server.start()
    http = server.http()
    assert http.result("POST", "/collections/a-precious/points/count", {})["count"] == 3_000
    assert {c["name"] for c in http.result("GET", "/collections")["collections"]} == {"a-precious", "b-damaged"}
    told = http.result("GET", "/collections/b-damaged")
    assert told["status"] == "red" and directory.name in told["optimizer_status"]["error"], told
    assert http.result("GET", "/collections/other")["status"] == "red"
    assert [issue["related_collection"] for issue in http.result("GET", "/issues")["issues"]] == ["b-damaged"]
    assert b"ramlet_collections_closed 1" in http.raw("GET", "/metrics")[2]
    point = {"points": [{"id": 1, "vector": [1, 1]}]}
    for method, path, body in [("PUT", "/points?wait=true", point), ("POST", "/points/query", {"query": [1, 1]}), ("POST", "/points/scroll", {}), ("PATCH", "", {})]:
        status, _, said = http.raw(method, f"/collections/b-damaged{path}", json.dumps(body))
        assert status == 503 and b"could not be opened" in said, (path, status, said)
    assert http.raw("PUT", "/collections/b-damaged", json.dumps(VECTORS))[0] == 409
    assert http.raw("POST", "/snapshots", "")[0] == 503, "a snapshot of everything would lack it"
    # Dropped and made anew.
    assert http.result("DELETE", "/collections/b-damaged") is True
    assert not directory.exists()
    fill(http, "b-damaged", 1_000)
    http.close()
    server.restart()
    http = server.http()
    assert http.result("POST", "/collections/b-damaged/points/count", {})["count"] == 1_000
    assert http.result("GET", "/issues")["issues"] == []
    http.close()


def test_one_that_is_skipped_is_as_it_was_afterwards(own_server):
    server = own_server
    http = server.http()
    for name in ("a-precious", "b-damaged"):
        fill(http, name, 1_000)
    http.close()
    server.stop()
    server.arguments = [*server.arguments, "--skip-collection", "b-damaged"]
    server.start()
    http = server.http()
    assert http.result("GET", "/collections/b-damaged")["status"] == "red"
    assert http.result("POST", "/collections/a-precious/points/count", {})["count"] == 1_000
    http.close()
    server.stop()
    server.arguments = server.arguments[:-2]
    server.start()
    http = server.http()
    assert http.result("POST", "/collections/b-damaged/points/count", {})["count"] == 1_000
    http.close()


def test_what_can_be_read_of_a_damaged_one_is_salvaged(own_server):
    server = own_server
    http = server.http()
    for name in ("a-precious", "b-damaged"):
        fill(http, name)
    for _ in range(300):
        if http.result("GET", "/collections/b-damaged")["indexed_vectors_count"] >= 3_000:
            break
        time.sleep(0.1)
    directory = directory_of(server, http, "b-damaged")
    http.result("PUT", "/collections/b-damaged/points?wait=true", {"points": [{"id": 9_999, "vector": [1, 2]}]})
    http.close()
    server.stop()
    delete_log(directory)
    snapshot = server.data.parent / "salvaged.snapshot"

    def salvage(collection):
        return subprocess.run([str(binary()), "salvage", str(server.data), collection, str(snapshot)], capture_output=True, text=True)

    assert salvage("nothing").returncode != 0 and not snapshot.exists()
    done = salvage("b-damaged")
    assert done.returncode == 0 and "log-" in done.stdout and "1 losses" in done.stdout, done
    assert salvage("b-damaged").returncode != 0, "it is there already"
    server.arguments = [*server.arguments, "--snapshot", f"{snapshot}:b-salvaged"]
    server.start()
    http = server.http()
    assert "ramlet salvage" in http.result("GET", "/collections/b-damaged")["optimizer_status"]["error"]
    assert http.result("POST", "/collections/b-salvaged/points/count", {"exact": True})["count"] == 3_000
    found = http.result("POST", "/collections/b-salvaged/points/query", {"query": [1, 0], "limit": 1})
    assert found["points"][0]["id"] == 2_999
    http.close()
