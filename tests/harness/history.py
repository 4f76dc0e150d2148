"""What clients sent and were told, and what a server may therefore show afterwards: the one oracle of the rigs that break things.

Writers send one operation at a time, on points of their own. A writer knows each point's state after its last acknowledged operation. An
operation that was refused, or had no answer, leaves its points in doubt: each is as before or as after it, until a check settles which.
A clerk does the same with aliases, collections, settings and payload indexes; an archivist takes snapshots, and restores them into a
collection beside. A snapshot must hold a prefix of each writer's operations, of those between its beginning and its end.

An acknowledged change that is missing, and a state that was never sent, are violations. So is an index (of payloads, texts, sparse or
dense vectors) that finds other points than those that are there.
"""

import hashlib
import json
import random
import threading
import time

from .http import Answer

NAME, ANCHOR, RESTORED = "history", "anchor", "restored"
DIM, IDS, WRITERS, TAGS = 16, 300, 2, 7
WORDS = [a + b for a in ("red", "blue", "old", "new", "cold") for b in ("stone", "river", "house", "bread", "cloud")]
PADDING = (0, 100, 3000)
# Points of an operation.
BATCHES = (1, 5, 40, 100)
# A dimension of the sparse vectors that holds their version.
SPARSE_VERSION = 1000
WAITS_S = 0.2


def vector(point, version):
    return [float(version), float(point % 1000)] + [float((point + version + n) % 97) for n in range(DIM - 2)]


def sparse(point, version):
    weights = {(point * 7 + version * n) % 50: float((point + n) % 9 + 1) for n in range(1, 6)} | {SPARSE_VERSION: float(version)}
    return {"indices": sorted(weights), "values": [weights[i] for i in sorted(weights)]}


def words(point, version):
    return [WORDS[(point * 3 + version * n + n * n) % len(WORDS)] for n in range(5)]


def tag(point, version):
    return f"t{(point + version) % TAGS}"


def payload(point, state, padding=PADDING):
    """All of it is drawn from the state, so that every byte is checked."""
    version, mark, _ = state
    whole = {"version": version, "owner": point // 1_000_000, "tag": tag(point, version), "text": " ".join(words(point, version))}
    whole["padding"] = "x" * padding[(point + version) % len(padding)]
    return whole if mark is None else {**whole, "mark": mark}


class Actor:
    """One client: one operation at a time, until it is stopped or its server is gone."""

    def __init__(self, name, seed):
        self.name, self.rng = name, random.Random(f"{seed} {name}")
        self.acknowledged = 0
        self.refused = {}
        self.errors = []
        # Refusals are no violation while this is set: something was broken on purpose.
        self.broken = threading.Event()

    def turn(self, http):
        raise NotImplementedError

    def run(self, server, stop):
        http = server.http(timeout=60)
        try:
            while not stop.is_set():
                try:
                    self.turn(http)
                except Answer as answer:
                    self.note(answer)
                    stop.wait(WAITS_S)
        except Exception as error:  # noqa: BLE001  the server was killed, or should have been
            if not stop.is_set() and not self.broken.is_set():
                self.errors.append(f"{self.name}: no answer from a server that nobody stopped: {error!r}")
        finally:
            http.close()

    def note(self, answer):
        """A refusal says why, and comes only when something was broken. 429 asks for patience and did nothing."""
        if answer.status == 429:
            return
        sentence = answer.sentence()
        key = (answer.status, "".join("#" if c.isdigit() else c for c in sentence)[:160])
        self.refused[key] = self.refused.get(key, 0) + 1
        if answer.status not in (500, 503, 507) or not sentence:
            self.errors.append(f"{self.name}: refused as it shouldn't be: {answer}")
        elif not self.broken.is_set():
            self.errors.append(f"{self.name}: refused though nothing was broken: {answer}")


class Writer(Actor):
    """A point's state is its version, a mark set by a payload change, and its sparse vector's version; or None: not there."""

    def __init__(self, number, seed, padding=PADDING, ids=IDS, batches=BATCHES):
        super().__init__(f"writer {number}", seed)
        self.number, self.padding, self.ids, self.batches = number, padding, ids, batches
        self.known = {}
        self.pending = {}
        # Of points in doubt the states they may be in, oldest first.
        self.doubtful = {}
        self.version = 0
        # The changes of each acknowledged operation, in order; and when points were in doubt, as (from, until).
        self.journal = []
        self.fog = {}

    def operation(self):
        """(method, path, body, changes): what is sent, and the state of each point after it."""
        rng, base = self.rng, self.number * 1_000_000
        self.version += 1
        ids = [base + n for n in rng.sample(range(self.ids), min(rng.choice(self.batches), self.ids))]
        ids = [i for i in ids if i not in self.doubtful] or [next(i for i in range(base, base + self.ids) if i not in self.doubtful)]
        there = [i for i in ids if self.known.get(i)]
        wait, kind, known, new = f"?wait={rng.choice(['true', 'false'])}", rng.random(), self.known, self.version
        if kind < 0.1 and there:
            body = {"payload": {"mark": new}, "points": there}
            return "POST", f"/points/payload{wait}", body, {i: (known[i][0], new, known[i][2]) for i in there}
        if kind < 0.15 and there:
            word = rng.choice(WORDS)
            body = {"payload": {"mark": new}, "filter": {"must": [{"has_id": ids}, {"key": "text", "match": {"text": word}}]}}
            hit = [i for i in there if word in words(i, known[i][0])]
            return "POST", f"/points/payload{wait}", body, {i: (known[i][0], new, known[i][2]) for i in hit}
        if kind < 0.2 and there:
            body = {"keys": ["mark"], "points": there}
            return "POST", f"/points/payload/delete{wait}", body, {i: (known[i][0], None, known[i][2]) for i in there}
        if kind < 0.28 and there:
            body = {"points": [{"id": i, "vector": {"s": sparse(i, new)}} for i in there]}
            return "PUT", f"/points/vectors{wait}", body, {i: (*known[i][:2], new) for i in there}
        if kind < 0.34 and there:
            one = tag(there[0], known[there[0]][0])
            body = {"filter": {"must": [{"has_id": ids}, {"key": "tag", "match": {"value": one}}]}}
            return "POST", f"/points/delete{wait}", body, {i: None for i in there if tag(i, known[i][0]) == one}
        if kind < 0.46:
            return "POST", f"/points/delete{wait}", {"points": ids}, dict.fromkeys(ids)
        after = dict.fromkeys(ids, (new, None, new))
        return "PUT", f"/points{wait}", {"points": [self.point(i, after[i]) for i in ids]}, after

    def point(self, point, state):
        vectors = {"v": vector(point, state[0]), "s": sparse(point, state[2])}
        return {"id": point, "vector": vectors, "payload": payload(point, state, self.padding)}

    def turn(self, http):
        if len(self.doubtful) > self.ids * 0.9:
            # Nearly nothing is left that an operation may touch.
            time.sleep(WAITS_S)
            return
        method, path, body, changes = self.operation()
        self.send(http, method, path, body, changes)

    def send(self, http, method, path, body, changes):
        self.pending = changes
        try:
            http.call(method, f"/collections/{NAME}{path}", body, retry=False)
        except Answer as answer:
            if answer.status != 429:
                self.doubt()
            self.pending = {}
            raise
        self.known.update(changes)
        # The journal first: who reads its length meanwhile takes the operation for one that is under way.
        self.journal.append(changes)
        self.pending = {}
        self.acknowledged += 1

    def doubt(self):
        """The pending operation was refused: it may be done in part."""
        for point, after in self.pending.items():
            self.doubtful[point] = [self.known.get(point), after]
            self.fog.setdefault(point, []).append([len(self.journal), None])

    def check(self, found, wrong):
        """Violations; afterwards the writer knows what is there. Also whether its last operation was done in part."""
        maybe = {point: [self.known.get(point), after] for point, after in self.pending.items()} | self.doubtful
        done = {found.get(p) == states[1] for p, states in maybe.items() if p in self.pending and states[0] != states[1]}
        for point in {**self.known, **maybe}:
            allowed = maybe.get(point) or [self.known.get(point)]
            if found.get(point) not in allowed:
                wrong.append(f"point {point} is {found.get(point)}, allowed: {allowed}")
        owned = (p for p in found if p // 1_000_000 == self.number)
        strangers = [p for p in owned if p not in self.known and p not in maybe]
        wrong += [f"point {p} was never sent" for p in strangers[:10]]
        settled = {point: found.get(point) for point in maybe}
        self.journal.append(settled)
        for point in self.doubtful:
            self.fog[point][-1][1] = len(self.journal)
        self.known.update(settled)
        self.pending, self.doubtful = {}, {}
        return len(done) == 2

    def is_prefix(self, found, window):
        """Whether the points found are this writer's after one of the operations of the window, the next one perhaps in part."""
        start, end = window
        misty = {p for p, times in self.fog.items() if any(a <= end and (b is None or b >= start) for a, b in times)}
        state = {}
        for changes in self.journal[:start]:
            state.update(changes)
        mine = {p for p in found if p // 1_000_000 == self.number}
        journal = self.journal[start:end] + [{}]
        everything = mine.union(state, *journal) - misty
        differing = {p for p in everything if found.get(p) != state.get(p)}
        for changes in journal:
            if all(p in changes and found.get(p) == changes[p] for p in differing):
                return True
            for point in changes.keys() & everything:
                (differing.add if found.get(point) != changes[point] else differing.discard)(point)
        return False


class Clerk(Actor):
    """Aliases, collections, settings, payload indexes: each thing has a value, or is not there (None)."""

    def __init__(self, seed):
        super().__init__("clerk", seed)
        self.known = {"setting": 10_000}
        self.pending = {}

    def turn(self, http):
        rng = self.rng
        kind = rng.choice(["alias", "alias", "side", "setting", "index"])
        if kind == "alias":
            name = f"alias{rng.randrange(4)}"
            there, target = self.known.get(name), rng.choice([NAME, ANCHOR, None])
            if (name in self.pending) or (there is None and target is None):
                return
            actions = [{"delete_alias": {"alias_name": name}}] if there else []
            if target:
                actions.append({"create_alias": {"alias_name": name, "collection_name": target}})
            self.do(http, "POST", "/collections/aliases", {"actions": actions}, {name: target})
        elif kind == "side":
            name = f"side{rng.randrange(3)}"
            if name in self.pending:
                return
            if self.known.get(name):
                self.do(http, "DELETE", f"/collections/{name}", None, {name: None})
            else:
                size = rng.randrange(2, 90)
                self.do(http, "PUT", f"/collections/{name}", {"vectors": {"size": size, "distance": "Dot"}}, {name: size})
        elif kind == "setting":
            if "setting" not in self.pending:
                value = rng.choice([0, 10, 10_000]) + rng.randrange(1, 9)
                self.do(http, "PATCH", f"/collections/{NAME}", {"optimizers_config": {"indexing_threshold": value}}, {"setting": value})
        elif "index" not in self.pending:
            if self.known.get("index"):
                self.do(http, "DELETE", f"/collections/{NAME}/index/owner?wait=true", None, {"index": None})
            else:
                self.do(http, "PUT", f"/collections/{NAME}/index?wait=true", {"field_name": "owner", "field_schema": "integer"}, {"index": True})
        time.sleep(rng.uniform(0, 0.1))

    def do(self, http, method, path, body, changes):
        # What was refused stays in doubt, and isn't touched again before a check.
        before = dict(self.pending)
        self.pending = {**before, **changes}
        try:
            http.call(method, path, body, retry=False)
        except Answer as answer:
            if answer.status == 429:
                self.pending = before
            raise
        self.known.update(changes)
        self.pending = before
        self.acknowledged += 1

    @staticmethod
    def read(http):
        found = {a["alias_name"]: a["collection_name"] for a in http.result("GET", "/aliases")["aliases"]}
        for entry in http.result("GET", "/collections")["collections"]:
            if entry["name"].startswith("side"):
                found[entry["name"]] = http.result("GET", f"/collections/{entry['name']}")["config"]["params"]["vectors"]["size"]
        about = http.result("GET", f"/collections/{NAME}")
        found["setting"] = about["config"]["optimizer_config"]["indexing_threshold"]
        if "owner" in about["payload_schema"]:
            found["index"] = True
        return found

    def check(self, found, wrong):
        for thing in {**self.known, **self.pending, **found}:
            allowed = [self.known.get(thing)] + ([self.pending[thing]] if thing in self.pending else [])
            if found.get(thing) not in allowed:
                wrong.append(f"{thing} is {found.get(thing)}, allowed: {allowed}")
        self.known, self.pending = dict(found), {}


class Archivist(Actor):
    """Snapshots by name: the window of each writer's operations, and the checksum it was acknowledged with."""

    def __init__(self, seed, writers, pause_s=0.3):
        super().__init__("archivist", seed)
        self.writers, self.pause_s = writers, pause_s
        self.known = {}
        # The windows that the restored collection may show; None: it isn't there.
        self.restored = [None]
        # The beginnings of snapshots that weren't acknowledged, and names whose removal wasn't.
        self.begun, self.leaving = [], []

    def starts(self):
        return [len(w.journal) for w in self.writers]

    def window(self, starts):
        """An operation that is under way now is journalled next."""
        return list(zip(starts, (len(w.journal) + 1 for w in self.writers)))

    def turn(self, http):
        time.sleep(self.rng.uniform(0, self.pause_s))
        starts = self.starts()
        self.begun.append(starts)
        try:
            taken = http.result("POST", f"/collections/{NAME}/snapshots", retry=False)
        except Answer as answer:
            if answer.status == 429:
                self.begun.pop()
            raise
        self.begun.pop()
        self.known[taken["name"]] = (self.window(starts), taken["checksum"])
        self.acknowledged += 1
        if self.rng.random() < 0.7:
            self.restore(http, taken["name"])
        # One whose removal was refused may be gone: it isn't touched again before a check.
        staying = [name for name in self.known if name not in self.leaving]
        if len(staying) > 2:
            oldest = staying[0]
            self.leaving.append(oldest)
            http.call("DELETE", f"/collections/{NAME}/snapshots/{oldest}", retry=False)
            self.leaving.remove(oldest)
            del self.known[oldest]
            self.acknowledged += 1

    def restore(self, http, name):
        window = self.known[name][0]
        before = list(self.restored)
        self.restored = [*before, window]
        body = {"location": f"file://{self.directory}/{NAME}/{name}", "priority": "snapshot"}
        try:
            http.call("PUT", f"/collections/{RESTORED}/snapshots/recover?wait=true", body, retry=False)
        except Answer as answer:
            if answer.status == 429:
                self.restored = before
            raise
        self.restored = [window]
        self.acknowledged += 1

    def check(self, http, wrong, padding):
        """What is listed and restored; at times one more is restored, so that what lies there is more than a list."""
        listed = {s["name"] for s in http.result("GET", f"/collections/{NAME}/snapshots")}
        for name in list(self.known):
            if name in listed:
                body = http.call("GET", f"/collections/{NAME}/snapshots/{name}")
                if hashlib.sha256(body).hexdigest() != self.known[name][1]:
                    wrong.append(f"snapshot {name} has another checksum than was acknowledged")
                continue
            if name not in self.leaving:
                wrong.append(f"snapshot {name} is gone")
            del self.known[name]
        strangers = sorted(listed - set(self.known))
        if len(strangers) > len(self.begun):
            wrong.append(f"snapshots that nobody asked for: {strangers}")
        earliest = [min(s) for s in zip(*self.begun)] or [0] * len(self.writers)
        for name in strangers:
            body = http.call("GET", f"/collections/{NAME}/snapshots/{name}")
            self.known[name] = (self.window(earliest), hashlib.sha256(body).hexdigest())
        self.begun, self.leaving = [], []
        self.compare(http, wrong, "the restored collection", padding)
        if self.known and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(self.known))
            self.restore(http, name)
            self.compare(http, wrong, f"snapshot {name}", padding)

    def compare(self, http, wrong, what, padding):
        names = {c["name"] for c in http.result("GET", "/collections")["collections"]}
        if RESTORED not in names:
            if None not in self.restored:
                wrong.append(f"{what} is gone")
            self.restored = [None]
            return
        found = read(http, RESTORED, wrong, padding)
        fits = [w for w in self.restored if w and all(x.is_prefix(found, of) for x, of in zip(self.writers, w))]
        if not fits:
            wrong.append(f"{what}, {len(found)} points, isn't what it was at any moment of its snapshot: {self.restored}")
        self.restored = fits[-1:] or [None]


def read(http, name, wrong, padding=PADDING):
    """Every point's state by pages; what is inconsistent in itself is told in `wrong`."""
    found, offset = {}, None
    while True:
        body = {"limit": 500, "with_payload": True, "with_vector": True, "offset": offset}
        page = http.result("POST", f"/collections/{name}/points/scroll", body)
        for point in page["points"]:
            got, vectors, i = point["payload"], point["vector"], point["id"]
            values = dict(zip(vectors["s"]["indices"], vectors["s"]["values"])) if "s" in vectors else {}
            state = (got.get("version"), got.get("mark"), int(values.get(SPARSE_VERSION, -1)))
            if i in found:
                wrong.append(f"{name}: point {i} comes twice")
            found[i] = state
            if state[0] is None or vectors.get("v") != vector(i, state[0]):
                wrong.append(f"{name}: point {i}: the vector is not of version {state[0]}")
            elif got != payload(i, state, padding):
                wrong.append(f"{name}: point {i}: the payload is not of {state}")
            elif vectors.get("s") != sparse(i, state[2]):
                wrong.append(f"{name}: point {i}: the sparse vector is not of version {state[2]}")
        offset = page["next_page_offset"]
        if offset is None:
            return found


def check_indexes(http, name, found, rng, wrong):
    """Counts, filters through payload indexes, texts, facets, sparse and dense searches against the points that are there."""

    def same(what, got, wanted):
        if got != wanted:
            more, fewer = (sorted(set(a) - set(b))[:5] if isinstance(got, set) else a for a, b in ((got, wanted), (wanted, got)))
            wrong.append(f"{name}: {what}: too many {more}, too few {fewer}" if isinstance(got, set) else f"{name}: {what}: {got}, not {wanted}")

    def ids(condition):
        body = {"limit": 100_000, "with_payload": False, "filter": {"must": condition}}
        return {p["id"] for p in http.result("POST", f"/collections/{name}/points/scroll", body)["points"]}

    def search(body):
        body = {**body, "limit": 100_000, "with_payload": False, "params": {"exact": True}}
        return {p["id"]: p["score"] for p in http.result("POST", f"/collections/{name}/points/query", body)["points"]}

    same("count", http.result("POST", f"/collections/{name}/points/count", {"exact": True})["count"], len(found))
    tags = {}
    for point, state in found.items():
        tags.setdefault(tag(point, state[0]), set()).add(point)
    for n in range(TAGS):
        same(f"tag t{n}", ids([{"key": "tag", "match": {"value": f"t{n}"}}]), tags.get(f"t{n}", set()))
    hits = http.result("POST", f"/collections/{name}/facet", {"key": "tag", "exact": True, "limit": 50})["hits"]
    same("facet", {(h["value"], h["count"]) for h in hits}, {(t, len(points)) for t, points in tags.items()})
    middle = sorted(s[0] for s in found.values())[len(found) // 2] if found else 0
    same("versions", ids([{"key": "version", "range": {"gte": middle}}]), {p for p, s in found.items() if s[0] >= middle})
    same("marks", ids([{"key": "mark", "range": {"gte": 0}}]), {p for p, s in found.items() if s[1] is not None})
    for _ in range(4):
        asked = rng.sample(WORDS, rng.choice([1, 1, 2]))
        wanted = {p for p, s in found.items() if set(asked) <= set(words(p, s[0]))}
        same(f"text {asked}", ids([{"key": "text", "match": {"text": " ".join(asked)}}]), wanted)
    for _ in range(2):
        asked = {d: float(rng.randrange(1, 5)) for d in rng.sample(range(50), 3)}
        query = {"indices": sorted(asked), "values": [asked[d] for d in sorted(asked)]}
        wanted = {}
        for point, state in found.items():
            of = sparse(point, state[2])
            shared = [asked[d] * w for d, w in zip(of["indices"], of["values"]) if d in asked]
            if shared:
                wanted[point] = sum(shared)
        got = search({"query": query, "using": "s"})
        same(f"sparse {query}", set(got.items()), set(wanted.items()))
    at = rng.randrange(DIM)
    wanted = {(p, vector(p, s[0])[at]) for p, s in found.items()}
    same(f"dense {at}", set(search({"query": [float(n == at) for n in range(DIM)], "using": "v"}).items()), wanted)


class History:
    """All that happens to one server: who works on it, and what it must show."""

    def __init__(self, seed, padding=PADDING, ids=IDS, batches=BATCHES, snapshots=True, clerk=True):
        self.rng, self.padding = random.Random(seed), padding
        self.writers = [Writer(n, seed, padding, ids, batches) for n in range(WRITERS)]
        self.clerk = Clerk(seed) if clerk else None
        self.archivist = Archivist(seed, self.writers) if snapshots else None
        self.actors = [*self.writers, *filter(None, (self.clerk, self.archivist))]
        self.stop, self.threads, self.torn = threading.Event(), [], 0

    def prepare(self, server):
        http = server.http()
        vectors = {"vectors": {"v": {"size": DIM, "distance": "Dot"}}, "sparse_vectors": {"s": {}}}
        http.call("PUT", f"/collections/{NAME}", {**vectors, "optimizers_config": {"indexing_threshold": 10_000}})
        text = {"type": "text", "tokenizer": "word", "lowercase": True}
        for field, schema in (("version", "integer"), ("mark", "integer"), ("tag", "keyword"), ("text", text)):
            http.call("PUT", f"/collections/{NAME}/index?wait=true", {"field_name": field, "field_schema": schema})
        http.call("PUT", f"/collections/{ANCHOR}", {"vectors": {"size": 2, "distance": "Dot"}})
        points = [{"id": n, "vector": [n, 1], "payload": {"n": n}} for n in range(100)]
        http.call("PUT", f"/collections/{ANCHOR}/points?wait=true", {"points": points})
        http.close()

    def begin(self, server):
        self.stop = threading.Event()
        if self.archivist:
            self.archivist.directory = (server.data / "snapshots").resolve()
        for actor in self.actors:
            actor.broken.clear()
        self.threads = [threading.Thread(target=a.run, args=(server, self.stop), daemon=True) for a in self.actors]
        for thread in self.threads:
            thread.start()

    def breaks(self):
        """From now on answers may be refusals, or none."""
        for actor in self.actors:
            actor.broken.set()

    def end(self, timeout=90):
        """Waits until nobody has an operation under way."""
        self.stop.set()
        for thread, actor in zip(self.threads, self.actors):
            thread.join(timeout)
            if thread.is_alive():
                actor.errors.append(f"{actor.name}: an operation has had no answer for {timeout} s")
        self.threads = []

    def under_way(self):
        return sum(bool(w.pending or w.doubtful) for w in self.writers)

    def check(self, server):
        """Violations of what the server shows now. Nobody may be at work."""
        wrong, http = [], server.http()
        try:
            found = read(http, NAME, wrong, self.padding)
            for writer in self.writers:
                self.torn += writer.check(found, wrong)
            strangers = [p for p in found if p // 1_000_000 >= len(self.writers)]
            wrong += [f"point {p} was never sent" for p in strangers[:10]]
            check_indexes(http, NAME, found, self.rng, wrong)
            self.check_anchor(http, wrong)
            if self.clerk:
                self.clerk.check(self.clerk.read(http), wrong)
            if self.archivist:
                self.archivist.check(http, wrong, self.padding)
        except Answer as answer:
            wrong.append(f"a question about what was acknowledged is refused: {answer}")
        finally:
            http.close()
        for actor in self.actors:
            wrong += actor.errors
            actor.errors = []
        return wrong

    @staticmethod
    def check_anchor(http, wrong):
        """A collection that is never touched."""
        page = http.result("POST", f"/collections/{ANCHOR}/points/scroll", {"limit": 200, "with_vector": True})
        if [(p["id"], p["vector"], p["payload"]["n"]) for p in page["points"]] != [(n, [float(n), 1.0], n) for n in range(100)]:
            wrong.append(f"the collection that nobody touched isn't as it was: {len(page['points'])} points")

    def acknowledged(self):
        return sum(a.acknowledged for a in self.actors)

    def refusals(self):
        """Counted by status and sentence, numbers left out."""
        all_ = {}
        for actor in self.actors:
            for key, times in actor.refused.items():
                all_[key] = all_.get(key, 0) + times
        return {f"{status}: {sentence}": times for (status, sentence), times in sorted(all_.items())}


def lost(wrong):
    """How many violations are acknowledged points that aren't as they were acknowledged."""
    return sum(line.startswith("point ") and "allowed:" in line for line in wrong)


def told(wrong, say, server, most=20):
    """Violations, and what the server warned of last."""
    say(f"{len(wrong)} violations")
    for line in [*wrong[:most], *(line for line in server.log(200).splitlines() if " WARN " in line or " ERROR " in line or "panicked" in line)][: most + 20]:
        say(f"  {line.replace(str(server.data), 'DATA')}")


def summary(figures):
    return json.dumps(figures, separators=(", ", ": "))
