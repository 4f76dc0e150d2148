"""Many small collections on one server, and what was acknowledged of each: filled, asked at random by several clients, killed, compared."""

import json
import random
import threading
import time

DIM = 4


def name(n):
    return f"tenant-{n:06}"


class Crowd:
    """`written[n]`: values by id of collection n. A write that wasn't answered may be there or not."""

    def __init__(self, server, collections, seed=1):
        self.server, self.collections, self.seed = server, collections, seed
        self.written = [{} for _ in range(collections)]
        self.locks = [threading.Lock() for _ in range(collections)]
        self.times = {"create": [], "put": [], "query": []}
        self.waited = 0

    def ask(self, http, method, path, body=None):
        """The answer's result. 429 is asked again, as every client does."""
        for _ in range(200):
            status, _, answer = http.raw(method, path, json.dumps(body) if body is not None else None)
            if status != 429:
                assert status == 200, f"{method} {path}: {status} {answer[:300]}"
                return json.loads(answer)["result"]
            self.waited += 1
            time.sleep(0.05)
        raise AssertionError(f"{method} {path}: 429 two hundred times")

    def timed(self, what, *request):
        started = time.monotonic()
        result = self.ask(*request)
        self.times[what].append(time.monotonic() - started)
        return result

    def create(self, say=lambda _: None):
        http = self.server.http()
        for n in range(self.collections):
            self.timed("create", http, "PUT", f"/collections/{name(n)}", {"vectors": {"size": DIM, "distance": "Dot"}})
            self.put(http, n, 0, n)
            if n % 1000 == 999:
                say(f"{n + 1} collections")
        http.close()

    def put(self, http, n, point, value):
        point = {"id": point, "vector": [value, 1, 1, 1], "payload": {"v": value, "of": n}}
        self.timed("put", http, "PUT", f"/collections/{name(n)}/points?wait=true", {"points": [point]})
        self.written[n][point["id"]] = value

    def query(self, http, n):
        body = {"query": [1, 0, 0, 0], "limit": 100, "with_payload": True}
        hits = self.timed("query", http, "POST", f"/collections/{name(n)}/points/query", body)["points"]
        found = {hit["id"]: hit["payload"]["v"] for hit in hits}
        assert found == self.written[n], f"{name(n)}: {found}, written {self.written[n]}"
        assert all(hit["payload"]["of"] == n for hit in hits), f"{name(n)} has points of another collection"

    def work(self, clients, operations, hot=0.0):
        """`hot`: the share of operations that go to a hundredth of the collections."""
        failures = []

        def one(client):
            rng, http = random.Random(f"{self.seed}-{client}"), self.server.http()
            try:
                for _ in range(operations):
                    most = max(1, self.collections // 100) if rng.random() < hot else self.collections
                    n = rng.randrange(most)
                    with self.locks[n]:
                        if rng.random() < 0.3:
                            self.put(http, n, rng.randrange(8), rng.randrange(1000))
                        else:
                            self.query(http, n)
            except Exception as error:  # noqa: BLE001  told by who started it
                failures.append(repr(error))
            http.close()

        threads = [threading.Thread(target=one, args=(client,)) for client in range(clients)]
        started = time.monotonic()
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, failures[:3]
        return clients * operations / (time.monotonic() - started)

    def killed(self, clients=3, seconds=1.0):
        """Kills the server while clients write; what wasn't acknowledged is learnt from what is there afterwards."""
        stop, unsure = threading.Event(), set()

        def one(client):
            rng, http = random.Random(f"kill-{self.seed}-{client}"), self.server.http()
            while not stop.is_set():
                n, point, value = rng.randrange(self.collections), rng.randrange(8), rng.randrange(1000)
                with self.locks[n]:
                    try:
                        self.put(http, n, point, value)
                    except (OSError, AssertionError):
                        unsure.add((n, point, value))
                        return

        threads = [threading.Thread(target=one, args=(client,)) for client in range(clients)]
        [thread.start() for thread in threads]
        time.sleep(seconds)
        self.server.kill()
        stop.set()
        [thread.join() for thread in threads]
        self.server.start()
        http = self.server.http()
        for n, point, value in unsure:
            found = self.ask(http, "POST", f"/collections/{name(n)}/points", {"ids": [point]})
            there = found[0]["payload"]["v"] if found else None
            assert there in (value, self.written[n].get(point)), f"{name(n)}: point {point} is {there}"
            if there is not None:
                self.written[n][point] = there
        http.close()

    def check(self, every=1):
        http = self.server.http()
        listed = [c["name"] for c in self.ask(http, "GET", "/collections")["collections"]]
        assert sorted(listed) == [name(n) for n in range(self.collections)]
        for n in range(0, self.collections, every):
            self.query(http, n)
        http.close()

    def metric(self, which):
        http = self.server.http()
        _, _, text = http.raw("GET", "/metrics")
        http.close()
        line = next(line for line in text.decode().splitlines() if line.startswith(which + " "))
        return float(line.split()[1])

    def milliseconds(self):
        """(median, 99th percentile, longest) of each kind."""

        def of(times):
            times = sorted(times)
            return [round(1000 * times[min(int(len(times) * share), len(times) - 1)], 1) for share in (0.5, 0.99, 1)]

        return {what: of(times) for what, times in self.times.items() if times}
