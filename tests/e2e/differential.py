"""Random histories on a server and on qdrant-client's local mode: collections that come and go, every kind of update, indexes of payloads, queries of every kind,
restarts and kills. After each step that only reads both must have answered the same; what is known to differ stands in docs/differences.md."""

import itertools
import random
import time
from collections import Counter

from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

import data
from compare import Pair, same_batches, same_hits, same_ordered, same_page, same_records
from sharded import Sharded
from test_any_query import Wide
from test_query import COUNT

# How often what is done; the rest are queries.
WEIGHTS = {
    "upsert": 14, "delete": 5, "set payload": 6, "overwrite payload": 3, "delete payload": 3, "clear payload": 1, "update vectors": 4, "delete vectors": 3,
    "create index": 3, "drop index": 2, "collection": 1, "snapshot": 1, "restart": 1, "kill": 1, "rest": 1,
    "query": 24, "scroll": 8, "order by": 4, "count": 8, "facet": 6, "retrieve": 5, "batch": 4,
}  # fmt: skip
# Keys with the kinds of index they may get. A facet is of a keyword. Of texts the one whose words the local mode cuts alike.
TEXT_INDEX = models.TextIndexParams(type="text", tokenizer=models.TokenizerType.WORD, lowercase=True, phrase_matching=True)
# Rows lie in the order of the cities.
CITY = models.KeywordIndexParams(type="keyword", is_tenant=True)
INDEXES = {**data.INDEXES, "city": CITY, "rank": "integer", "num": "float", "text": TEXT_INDEX}
WORDS = ["sea", "ship", "cold", "warm", "mat", "Cat", "dog", "winter", "bread", "of", "the", "42"]
# Always indexed: queries are ordered by them, and formulas ask for dates.
KEPT = ["rank", "num", "when", "city"]
MOST_POINTS = 400


def patiently(call, seconds=60):
    """A call that may be told to come again: the memory it needs is held by others for a moment."""
    until = time.monotonic() + seconds
    while True:
        try:
            return call()
        except ResourceExhaustedResponse:
            assert time.monotonic() < until, "refused for a minute"
            time.sleep(0.2)


class History(Wide):
    """One collection in both worlds, what is in it, and the next random step."""

    def __init__(self, pair, seed):
        self.indexed, self.ranks = set(), itertools.count(COUNT)
        super().__init__(pair, seed, random.Random(seed).choice([models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]))
        self.indexed = set(KEPT)

    def learn(self):
        """Which points there are, for queries that name some."""
        found, _ = self.pair.oracle.scroll(self.pair.name, limit=100_000, with_payload=False, with_vectors=True)
        if not found:
            # Updates name points that are there: others are 404 here, as on the API's server.
            return self.upsert()
        self.ids = [p.id for p in found]
        self.with_vector = {name: [p.id for p in found if name in (p.vector or {})] for name in self.names}

    def input(self, name):
        return super().input(name) if self.with_vector[name] else self.make(name)

    def some_ids(self, most=12):
        return self.rng.sample(self.ids, min(len(self.ids), self.rng.randint(1, most)))

    def selector(self):
        """Points by ids, or by a filter."""
        if self.rng.maybe(0.6):
            return self.some_ids()
        return models.FilterSelector(filter=data.random_filter(self.rng, self.ids))

    def both(self, call):
        return self.pair.both(call)

    def words(self, most):
        return " ".join(self.rng.choice(WORDS) for _ in range(self.rng.randint(1, most)))

    def payload(self, rank):
        return super().payload(rank) | ({"text": self.words(12)} if self.rng.maybe(0.8) else {})

    def filter(self, *chance):
        """Now and then with words that the text must have."""
        found = super().filter(*chance)
        if self.rng.maybe(0.75):
            return found
        words = self.words(3)
        match = self.rng.choice([models.MatchText(text=words), models.MatchTextAny(text_any=words), models.MatchPhrase(phrase=words)])
        texts = models.FieldCondition(key="text", match=match)
        return models.Filter(must=[texts] if found is None else [texts, found])

    # Updates

    def upsert(self):
        rng, name = self.rng, self.pair.name
        numbers = [rng.randrange(MOST_POINTS) for _ in range(rng.choice([1, 3, 20]))]
        # Each rank is given once: of equal ones either order is right.
        points = [models.PointStruct(id=data.point_id(rng, n), vector=self.vectors(), payload=self.payload(next(self.ranks))) for n in dict.fromkeys(numbers)]
        self.both(lambda c: c.upsert(name, points, wait=True))
        self.learn()

    def delete(self):
        name, selector = self.pair.name, self.selector()
        if isinstance(selector, list) or len(self.ids) > MOST_POINTS // 2:
            self.both(lambda c: c.delete(name, selector, wait=True))
            self.learn()

    def changed(self):
        made = {key: value for key, value in data.payload(self.rng).items() if key != "when" or value is not None}
        return made | ({"text": self.words(12)} if self.rng.maybe(0.3) else {})

    def set_payload(self):
        name, selector, payload = self.pair.name, self.selector(), self.changed()
        key = self.rng.choice([None, None, "obj", "fresh"])
        self.both(lambda c: c.set_payload(name, payload, selector, key=key, wait=True))

    def overwrite_payload(self):
        name, selector, payload = self.pair.name, self.selector(), self.changed()
        self.both(lambda c: c.overwrite_payload(name, payload, selector, wait=True))

    def delete_payload(self):
        name, selector = self.pair.name, self.selector()
        keys = self.rng.sample(["city", "tags", "n", "obj.deep", "nest[].n", "missing", "flag", "text"], self.rng.randint(1, 3))
        self.both(lambda c: c.delete_payload(name, keys, selector, wait=True))

    def clear_payload(self):
        name, ids = self.pair.name, self.some_ids(4)
        self.both(lambda c: c.clear_payload(name, ids, wait=True))

    def update_vectors(self):
        name = self.pair.name
        points = [models.PointVectors(id=i, vector={v: self.make(v) for v in self.rng.sample(self.names, self.rng.randint(1, 2))}) for i in self.some_ids(5)]
        self.both(lambda c: c.update_vectors(name, points, wait=True))
        self.learn()

    def delete_vectors(self):
        name, selector, vectors = self.pair.name, self.selector(), self.rng.sample(self.names, 1)
        self.both(lambda c: c.delete_vectors(name, vectors, selector, wait=True))
        self.learn()

    # Settings

    def create_index(self):
        key = self.rng.choice(list(INDEXES))
        self.both(lambda c: c.create_payload_index(self.pair.name, key, INDEXES[key], wait=True))
        self.indexed.add(key)

    def index_kept(self):
        for key in KEPT:
            self.both(lambda c: c.create_payload_index(self.pair.name, key, INDEXES[key], wait=True))
        self.indexed = set(KEPT)

    def drop_index(self):
        # An order needs its index: the local mode has none.
        if droppable := sorted(self.indexed - set(KEPT)):
            key = self.rng.choice(droppable)
            self.both(lambda c: c.delete_payload_index(self.pair.name, key, wait=True))
            self.indexed.discard(key)

    def collection(self):
        """Dropped, and made anew under its name."""
        self.both(lambda c: c.delete_collection(self.pair.name))
        self.create()
        self.index_kept()
        self.upsert()

    def snapshot(self):
        """Taken, and restored at once: all stays as it is."""
        remote, name = self.pair.remote, self.pair.name
        taken = patiently(lambda: remote.create_snapshot(name, wait=True))
        source = f"file://{self.snapshots}/{name}/{taken.name}"
        patiently(lambda: remote.recover_snapshot(name, source, wait=True, priority=models.SnapshotPriority.SNAPSHOT))
        remote.delete_snapshot(name, taken.name, wait=True)

    # Questions

    def any(self):
        arguments, same = super().any()
        mmr = getattr(arguments["query"], "mmr", None)
        if isinstance(self.pair.remote, Sharded) and mmr is not None and mmr.candidates_limit is None:
            return self.any()
        return arguments, same

    def query(self):
        arguments, same = self.any()
        self.pair.agree("differential: queries", lambda c: c.query_points(self.pair.name, **arguments), same, str(arguments))

    def batch(self):
        arguments, same = self.any()
        if same is not same_hits:
            return
        asked = dict(arguments)
        filter_, vectors = asked.pop("query_filter"), asked.pop("with_vectors")
        request = models.QueryRequest(filter=filter_, with_vector=vectors, **asked)
        self.pair.agree("differential: batches", lambda c: c.query_batch_points(self.pair.name, [request] * 2), same_batches, str(request))

    def scroll(self):
        rng = self.rng
        asked = {"scroll_filter": self.filter(0.8), "limit": rng.choice([1, 7, 1_000]), "with_payload": True, "with_vectors": rng.maybe(0.3)}
        if rng.maybe(0.3):
            asked["offset"] = rng.choice(self.ids)
        self.pair.agree("differential: scrolls", lambda c: c.scroll(self.pair.name, **asked), same_page, str(asked))

    def order_by(self):
        key = self.rng.choice(sorted({"rank", "num"} & self.indexed) or [None])
        if key is None:
            return
        order = models.OrderBy(key=key, direction=self.rng.choice(list(models.Direction)))
        asked = {"order_by": order, "scroll_filter": self.filter(), "limit": 20}
        self.pair.agree("differential: scrolls by value", lambda c: c.scroll(self.pair.name, **asked), same_ordered, str(asked))

    def count(self):
        asked = {"count_filter": self.filter(0.9), "exact": True}
        self.pair.agree("differential: counts", lambda c: c.count(self.pair.name, **asked).count, None, str(asked))

    def facet(self):
        keys = sorted({"city", "tags"} & self.indexed)
        if not keys:
            return
        asked = {"key": self.rng.choice(keys), "facet_filter": self.filter(), "exact": True, "limit": 100}

        def hits(client):
            return sorted((str(hit.value), hit.count) for hit in client.facet(self.pair.name, **asked).hits)

        self.pair.agree("differential: facets", hits, None, str(asked))

    def retrieve(self):
        ids = self.some_ids() + [10**9]
        self.pair.agree("differential: reads", lambda c: c.retrieve(self.pair.name, ids, with_payload=True, with_vectors=True), same_records, str(ids))


class Worlds:
    """Some histories on one server, which is restarted and killed between steps."""

    def __init__(self, server, client_of, seed, collections=2):
        self.server, self.client_of, self.rng = server, client_of, random.Random(f"worlds {seed}")
        self.steps = Counter()
        # Each speaks another protocol, and one of them may have shard keys.
        self.grpc = [n % 2 == 1 for n in range(collections)]
        which = random.Random(f"shards {seed}").choice([None, *range(collections)])
        # There a snapshot with shards finds no memory to be restored in.
        which = None if server.memory == "16MB" else which
        self.sharded = [n == which for n in range(collections)]
        self.histories = [self.history(n, seed) for n in range(collections)]

    def history(self, n, seed):
        pair = Pair(self.client(n), name=f"differential-{n}")
        history = History(pair, f"{seed}-{n}")
        history.snapshots = self.server.data / "snapshots"
        return history

    def client(self, n):
        client = self.client_of(self.server, prefer_grpc=self.grpc[n])
        return Sharded(client) if self.sharded[n] else client

    def connect(self):
        for n, history in enumerate(self.histories):
            history.pair.remote.close()
            history.pair.remote = self.client(n)

    def step(self):
        kind = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if kind in ("restart", "kill"):
            self.steps[kind] += 1
            self.server.restart(kill=kind == "kill")
            self.connect()
            [history.pair.same_state() for history in self.histories]
            return
        history = self.rng.choice(self.histories)
        if kind == "rest":
            return history.pair.same_state()
        self.steps[kind] += 1
        getattr(history, kind.replace(" ", "_"))()

    def close(self):
        for history in self.histories:
            history.pair.remote.close()
            history.pair.oracle.close()
