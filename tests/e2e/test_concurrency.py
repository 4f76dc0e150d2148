"""Several clients at once: every acknowledged write is there at the end, and no search ever sees half a point."""

import threading
import time

import pytest

import conftest
import data

NAME, DIM, WRITERS, READERS, ROUNDS, BATCH = "concurrent", 8, 3, 3, 25, 20


def point(writer, number, version):
    # The vector and the payload say the same version: a reader that sees two of them has seen half a write.
    return {"id": writer * 100_000 + number, "vector": [float(version)] * DIM, "payload": {"writer": writer, "version": version}}


def write(server, writer, expected, failures):
    http, rng = server.http(), data.Random(100 + writer)
    try:
        for version in range(1, ROUNDS + 1):
            numbers = rng.sample(range(200), BATCH)
            points = [point(writer, n, version) for n in numbers]
            http.call("PUT", f"/collections/{NAME}/points?wait={str(rng.maybe(0.5)).lower()}", {"points": points})
            expected.update({p["id"]: version for p in points})
            gone = [writer * 100_000 + n for n in rng.sample(range(200), 3)]
            http.call("POST", f"/collections/{NAME}/points/delete?wait=false", {"points": gone})
            for i in gone:
                expected.pop(i, None)
    except Exception as error:  # noqa: BLE001  told by the test's thread
        failures.append(error)
    finally:
        http.close()


def read(server, stop, seen, failures):
    http = server.http()
    try:
        while not stop.is_set():
            query = {"query": [1.0] * DIM, "limit": 50, "with_payload": True, "with_vector": True}
            for hit in http.result("POST", f"/collections/{NAME}/points/query", query)["points"]:
                version = hit["payload"]["version"]
                assert hit["vector"] == [float(version)] * DIM, hit
                assert hit["id"] // 100_000 == hit["payload"]["writer"], hit
                seen[0] += 1
            page = http.result("POST", f"/collections/{NAME}/points/scroll", {"limit": 100})
            ids = [p["id"] for p in page["points"]]
            assert ids == sorted(set(ids)), ids
            time.sleep(0.002)
    except Exception as error:  # noqa: BLE001  told by the test's thread
        failures.append(error)
    finally:
        http.close()


def test_writers_and_readers(server, http):
    http.call("PUT", f"/collections/{NAME}", {"vectors": {"size": DIM, "distance": "Dot"}})
    expected, failures, seen, stop = [{} for _ in range(WRITERS)], [], [0], threading.Event()
    writers = [threading.Thread(target=write, args=(server, w, expected[w], failures)) for w in range(WRITERS)]
    readers = [threading.Thread(target=read, args=(server, stop, seen, failures)) for _ in range(READERS)]
    for thread in writers + readers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert not failures, failures
    assert seen[0] > 0
    # One more write with wait=true, so that everything before it is searchable.
    http.call("PUT", f"/collections/{NAME}/points?wait=true", {"points": [point(9, 0, 1)]})
    page = http.result("POST", f"/collections/{NAME}/points/scroll", {"limit": 10_000})["points"]
    found = {p["id"]: p["payload"]["version"] for p in page}
    assert found.pop(900_000) == 1
    wanted = {i: v for part in expected for i, v in part.items()}
    assert found == wanted
    http.call("DELETE", f"/collections/{NAME}")


@pytest.mark.skipif(conftest.SELF, reason="needs a server")
def test_many_collections(server):
    """Collections made, filled and deleted side by side don't disturb each other."""
    failures = []

    def life(number):
        http = server.http()
        try:
            for turn in range(4):
                path = f"/collections/side-{number}"
                http.call("PUT", path, {"vectors": {"size": 2, "distance": "Dot"}})
                points = [{"id": i, "vector": [number, i]} for i in range(turn + 5)]
                http.call("PUT", f"{path}/points?wait=true", {"points": points})
                assert http.result("POST", f"{path}/points/count", {"exact": True})["count"] == turn + 5
                http.call("DELETE", path)
        except Exception as error:  # noqa: BLE001  told by the test's thread
            failures.append(error)
        finally:
            http.close()

    threads = [threading.Thread(target=life, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
