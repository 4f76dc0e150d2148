"""Comparison of our server with qdrant-client's local mode, case by case, and the count of them."""

import json
from collections import Counter
from functools import lru_cache

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client.local import datetime_utils, payload_value_extractor

# The local mode reads paths and dates anew for every point that a filter is put to: half of a filter's time.
datetime_utils.parse = lru_cache(maxsize=1 << 16)(datetime_utils.parse)
payload_value_extractor.parse_json_path = lru_cache(maxsize=1 << 12)(payload_value_extractor.parse_json_path)

# Compared cases by kind; printed at the end of the run.
CASES = Counter()
# Lines that tests leave for the end of the run: cycles, peaks.
NOTES = []

SCORE_TOLERANCE = 1e-4


def close(a, b, scale=1.0):
    return abs(a - b) <= SCORE_TOLERANCE * max(abs(a), abs(b), scale * 1e-1)


class Refused:
    """Stands for an error: which one is the business of the bad-input tests."""

    def __init__(self, error):
        self.error = error

    def __repr__(self):
        return f"Refused({type(self.error).__name__}: {str(self.error)[:300]})"


def attempt(call, client):
    try:
        return call(client)
    except Exception as error:  # noqa: BLE001  every refusal counts, the local mode has many kinds
        return Refused(error)


class Pair:
    """Our server and the oracle under the same operations."""

    def __init__(self, remote, name="c"):
        self.remote, self.oracle, self.name = remote, QdrantClient(":memory:"), name
        # Stands behind the kinds of cases in the count.
        self.over = " over gRPC" if getattr(remote._client, "_prefer_grpc", False) else ""
        self.collections = []

    def create(self, vectors_config, name=None, **more):
        name = name or self.name
        self.both(lambda c: c.create_collection(name, vectors_config=vectors_config, **more))
        self.collections.append(name)
        return name

    def close(self):
        for name in self.collections:
            attempt(lambda c, name=name: c.delete_collection(name), self.remote)
        self.oracle.close()

    def both(self, call):
        """An operation on both that must succeed on both."""
        ours, theirs = call(self.remote), call(self.oracle)
        return ours, theirs

    def agree(self, kind, call, compare=None, context=""):
        """The same call on both: equal results, or a refusal by both."""
        ours, theirs = attempt(call, self.remote), attempt(call, self.oracle)
        CASES[kind + self.over] += 1
        if isinstance(ours, Refused) or isinstance(theirs, Refused):
            assert isinstance(ours, Refused) and isinstance(theirs, Refused), f"ours {ours}, oracle {theirs}\n{context}"
            return None
        try:
            (compare or same_value)(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{context}") from None
        return ours

    def same_state(self, with_vectors=True, limit=10_000):
        """Everything that a scroll gives is the same on both sides."""

        def everything(client):
            return client.scroll(self.name, limit=limit, with_payload=True, with_vectors=with_vectors)

        self.agree("states", everything, same_page)


def plain(value):
    """Payloads as JSON has them; None and {} are the same payload."""
    return json.loads(json.dumps(value, default=str)) if value else {}


def same_value(ours, theirs):
    assert ours == theirs, f"ours {ours!r}, oracle {theirs!r}"


def same_vectors(ours, theirs):
    if ours is None or theirs is None:
        assert not ours and not theirs, f"vectors: ours {ours}, oracle {theirs}"
        return
    if isinstance(theirs, dict):
        assert isinstance(ours, dict) and ours.keys() == theirs.keys(), f"vectors: ours {ours}, oracle {theirs}"
        for name, vector in theirs.items():
            same_vectors(ours[name], vector)
        return
    if hasattr(theirs, "indices"):
        a, b = (sorted(zip(v.indices, v.values)) for v in (ours, theirs))
        assert [d for d, _ in a] == [d for d, _ in b], f"sparse vectors: ours {ours}, oracle {theirs}"
        ours, theirs = [v for _, v in a], [v for _, v in b]
    assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5), f"vectors: ours {ours}, oracle {theirs}"


def same_record(ours, theirs):
    assert ours.id == theirs.id, f"ids: ours {ours.id!r}, oracle {theirs.id!r}"
    assert plain(ours.payload) == plain(theirs.payload), f"payload of {ours.id}: ours {ours.payload}, oracle {theirs.payload}"
    same_vectors(ours.vector, theirs.vector)


def same_records(ours, theirs):
    a, b = [r.id for r in ours], [r.id for r in theirs]
    assert a == b, f"ids: ours {a}, oracle {b}"
    for x, y in zip(ours, theirs):
        same_record(x, y)


def same_page(ours, theirs):
    same_records(ours[0], theirs[0])
    assert ours[1] == theirs[1], f"next page: ours {ours[1]!r}, oracle {theirs[1]!r}"


def same_hits(ours, theirs):
    """Hits in the same order. Points of equal score may stand in any order, and at either end of the page any of them may be cut off."""
    ours, theirs = getattr(ours, "points", ours), getattr(theirs, "points", theirs)
    a = [(h.id, h.score) for h in ours]
    b = [(h.id, h.score) for h in theirs]
    shown = f"\nours   {a}\noracle {b}"
    assert len(a) == len(b), f"{len(a)} hits, oracle {len(b)}{shown}"
    assert len({i for i, _ in a}) == len(a), f"a point twice{shown}"
    if not a:
        return
    scale = max(abs(s) for _, s in b)
    for place, ((_, x), (_, y)) in enumerate(zip(a, b)):
        assert close(x, y, scale), f"score at place {place}: {x}, oracle {y}{shown}"
    at_the_ends = (b[0][1], b[-1][1])
    scores = dict(b)
    for i, score in a:
        if i in scores:
            assert close(score, scores[i], scale), f"score of {i}: {score}, oracle {scores[i]}{shown}"
        else:
            assert any(close(score, end, scale) for end in at_the_ends), f"{i} is no hit of the oracle{shown}"
    records = {h.id: h for h in theirs}
    for hit in ours:
        if hit.id in records:
            other = records[hit.id]
            assert plain(hit.payload) == plain(other.payload), f"payload of {hit.id}: {hit.payload}, oracle {other.payload}"
            same_vectors(hit.vector, other.vector)


def same_ordered(ours, theirs):
    """A page of a scroll by value: the same values in the same order, the same points where values differ."""
    ours, theirs = ours[0], theirs[0]
    a = [(r.order_value, r.id) for r in ours]
    b = [(r.order_value, r.id) for r in theirs]
    shown = f"\nours   {a}\noracle {b}"
    assert [v for v, _ in a] == [v for v, _ in b], f"order values differ{shown}"
    if b:
        last = b[-1][0]
        inner = lambda page: sorted((v, str(i)) for v, i in page if v != last)  # noqa: E731
        assert inner(a) == inner(b), f"points differ{shown}"


def same_batches(ours, theirs):
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs):
        same_hits(x, y)
