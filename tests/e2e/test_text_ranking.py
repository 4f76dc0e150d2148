"""Points ranked by the words of a payload field, against the client's local mode and an own BM25."""

import collections
import json
import math
import os
import random
import re

import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest
from compare import close

COMMON = ["of", "the", "and", "in"]
WORDS = COMMON * 6 + [f"word{n}" for n in range(60)] * 2 + [f"rare{n}" for n in range(200)]
SCORED = models.TextIndexParams(type="text", scoring=True)


def text(rng, most=60):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def payload(rng, number):
    body = [text(rng), 7, text(rng)] if rng.random() < 0.1 else text(rng)
    return {"g": number % 4, **({"body": body} if rng.random() < 0.95 else {})}


def points(rng, numbers):
    return [models.PointStruct(id=n, vector=[n / 8, 1.0], payload=payload(rng, n)) for n in numbers]


def same(ours, theirs):
    """Equal scores in order; equal ids where no score comes twice."""
    assert len(ours) == len(theirs)
    scores = [p.score for p in theirs]
    for a, b in zip(ours, theirs):
        assert close(a.score, b.score), (a, b)
        if sum(close(b.score, s) for s in scores) == 1:
            assert a.id == b.id


def asked(rng):
    words = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.5:
        return models.TextQuery(text=words)
    params = models.Bm25Params(k=rng.choice([None, 0.0, 0.5, 3.0]), b=rng.choice([None, 0.0, 0.4, 1.0]))
    return models.TextQuery(text=models.TextQueryInput(query=words, scoring=models.Bm25Scoring(bm25=params)))


def fill(pair, rng, count=400):
    pair.create(models.VectorParams(size=2, distance=models.Distance.DOT))
    pair.both(lambda c: c.create_payload_index(pair.name, "body", field_schema=SCORED, wait=True))
    batch = points(rng, range(count))
    pair.both(lambda c: c.upsert(pair.name, batch, wait=True))


def compared(pair, rng, rounds):
    few = models.Filter(must=[models.FieldCondition(key="g", match=models.MatchValue(value=1))])
    for _ in range(rounds):
        query = asked(rng)
        for more in ({}, {"query_filter": few}, {"offset": 3}, {"score_threshold": 2.0}, {"limit": 60}):
            more = {"limit": 7, **more}
            same(*pair.both(lambda c: c.query_points(pair.name, query=query, using="body", **more).points))


@pytest.mark.skipif(conftest.SELF, reason="the local mode ranks as it does")
def test_ranking(pair):
    rng = random.Random(5)
    fill(pair, rng)
    compared(pair, rng, 15)
    few = models.Filter(must=[models.FieldCondition(key="g", match=models.MatchValue(value=2))])
    pair.both(lambda c: c.delete(pair.name, points_selector=few, wait=True))
    changed = points(rng, range(390, 500))
    pair.both(lambda c: c.upsert(pair.name, changed, wait=True))
    compared(pair, rng, 10)


@pytest.mark.skipif(conftest.SELF, reason="the local mode ranks as it does")
def test_prefetches_groups_and_batches(pair):
    rng = random.Random(6)
    fill(pair, rng)
    for _ in range(10):
        first, second = asked(rng), asked(rng)
        # All of them: where the last of a prefetch are equally good, which of them come is nobody's promise.
        near = models.Prefetch(query=[rng.random(), 1.0], limit=1000)
        words = models.Prefetch(query=first, using="body", limit=1000)
        for prefetch, query, using in (
            ([words], models.FusionQuery(fusion=models.Fusion.RRF), None),
            ([near], first, "body"),
            ([words], second, "body"),
            ([words], [1.0, 0.5], None),
        ):
            same(*pair.both(lambda c: c.query_points(pair.name, prefetch=prefetch, query=query, using=using, limit=8).points))
        requests = [models.QueryRequest(query=q, using="body", limit=5) for q in (first, second)]
        for ours, theirs in zip(*pair.both(lambda c: c.query_batch_points(pair.name, requests))):
            same(ours.points, theirs.points)
        ours, theirs = pair.both(lambda c: c.query_points_groups(pair.name, group_by="g", query=first, using="body", limit=3, group_size=2).groups)
        assert [len(g.hits) for g in ours] == [len(g.hits) for g in theirs]
        for a, b in zip(ours, theirs):
            same(a.hits, b.hits)


def bm25(documents, query, k=1.2, b=0.75):
    """An own BM25 over lists of tokens by id."""
    documents = {i: t for i, t in documents.items() if t}
    average = sum(map(len, documents.values())) / max(len(documents), 1)
    scores = collections.Counter()
    for term in set(query):
        holders = {i: t.count(term) for i, t in documents.items() if term in t}
        idf = math.log(1 + (len(documents) - len(holders) + 0.5) / (len(holders) + 0.5))
        for i, tf in holders.items():
            scores[i] += idf * tf * (k + 1) / (tf + k * (1 - b + b * len(documents[i]) / average))
    return scores


def cut(value):
    return re.findall(r"[a-z0-9]+", value.lower()) if isinstance(value, str) else []


@pytest.mark.skipif(conftest.SELF, reason="needs a server")
def test_the_order_outlives_flushes_restarts_and_snapshots(own_server):
    client, rng = conftest.client_of(own_server), random.Random(9)
    client.create_collection("t", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
    client.create_payload_index("t", "body", field_schema=SCORED, wait=True)
    documents = {}

    def put(numbers):
        batch = [models.PointStruct(id=n, vector=[1, 1], payload={"body": text(rng)}) for n in numbers]
        documents.update({p.id: cut(p.payload["body"]) for p in batch})
        client.upsert("t", batch, wait=True)

    def check(rounds=6):
        for _ in range(rounds):
            words = " ".join(rng.choice(WORDS) for _ in range(3))
            scores = bm25(documents, cut(words))
            hits = client.query_points("t", query=models.TextQuery(text=words), using="body", limit=20).points
            best = sorted(scores.values(), reverse=True)[:20]
            assert len(hits) == len(best)
            for hit, score in zip(hits, best):
                assert close(hit.score, score) and close(scores[hit.id], hit.score)

    put(range(600))
    check()
    # An index made anew finds all of it, in segments and buffers.
    own_server.stop()
    own_server.start()
    check()
    put(range(300, 900))
    check()
    client.create_payload_index("t", "body", field_schema=models.TextIndexParams(type="text", scoring=False), wait=True)
    with pytest.raises(UnexpectedResponse) as refused:
        client.query_points("t", query=models.TextQuery(text="the"), using="body")
    assert refused.value.status_code == 400 and b"scoring" in refused.value.content
    client.create_payload_index("t", "body", field_schema=SCORED, wait=True)
    check()
    shown = client.get_collection("t").payload_schema["body"].params
    assert shown.scoring is True or shown.scoring
    snapshot = client.create_snapshot("t", wait=True)
    client.upsert("t", [models.PointStruct(id=10_000, vector=[1, 1], payload={"body": "rare1 rare2 rare3"})], wait=True)
    client.recover_snapshot("t", location=(own_server.data / "snapshots" / "t" / snapshot.name).as_uri(), wait=True)
    check()


@pytest.mark.skipif(conftest.SELF, reason="needs a server")
def test_what_is_no_text_query_is_refused(http):
    name = f"refused-{os.getpid()}"
    http.call("PUT", f"/collections/{name}", {"vectors": {"size": 2, "distance": "Dot"}})
    scored = {"type": "text", "scoring": {"type": "bm25"}}
    for field, schema in (("body", scored), ("plain", "text")):
        http.call("PUT", f"/collections/{name}/index?wait=true", {"field_name": field, "field_schema": schema})

    def query(body, **more):
        request = json.dumps({"query": body, "using": "body", **more})
        status, _, answer = http.raw("POST", f"/collections/{name}/points/query", request)
        return status, json.loads(answer)

    assert query({"text": "a b"})[0] == 200
    assert query({"text": ""})[1]["result"]["points"] == []
    assert query({"text": {"query": "a", "scoring": {"bm25": {"k": 2, "b": None}}}})[0] == 200
    for body, more in (
        ({"text": "a"}, {"using": None}),
        ({"text": "a"}, {"using": "plain"}),
        ({"text": "a"}, {"using": "missing"}),
        ({"text": 3}, {}),
        ({"text": {"scoring": {"bm25": {}}}}, {}),
        ({"text": {"query": "a", "scoring": {"bm25": {"k": -1}}}}, {}),
        ({"text": {"query": "a", "scoring": {"bm25": {"b": 1.5}}}}, {}),
        ({"text": {"query": "a", "scoring": {"tfidf": {}}}}, {}),
        ({"text": "a", "fusion": "rrf"}, {}),
        ({"text": " ".join(f"w{n}" for n in range(5000))}, {}),
        ({"fusion": "rrf"}, {"using": None, "prefetch": [{"query": {"text": "a"}, "using": "plain"}]}),
    ):
        status, answer = query(body, **more)
        assert status == 400 and answer["status"]["error"], (body, status, answer)
