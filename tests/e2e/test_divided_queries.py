"""Queries of several levels over three shards, beside the same data in one server: the same points, scores, and marked words; and how the shards searched, which they tell together."""

import json
import random
import re
import subprocess

import grpc
import pytest
from harness.divided import one_and_three
from harness.http import Answer
from harness.server import binary
from qdrant_client import grpc as api
from qdrant_client import models

import conftest
from compare import close

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs servers")

POINTS, DIM = 300, 6
TEXT = {"type": "text", "tokenizer": "word", "scoring": True, "lowercase": True}
WORDS = "sea ship cold warm mat cat dog winter bread of the".split()
PATH = "/collections/docs/points"
# What explain has of one search in one server.
KEYS = {"segments_count", "probes", "codes_scanned", "rows_scored", "rows_checked", "reads", "disk_reads", "disk_bytes", "time_us", "stages", "meaning", "segments"}


def fill(http):
    rng = random.Random(5)
    http.result("PUT", "/collections/docs", {"vectors": {"a": {"size": DIM, "distance": "Cosine"}, "b": {"size": 3, "distance": "Euclid"}}})
    for field in ("title", "body"):
        http.result("PUT", "/collections/docs/index?wait=true", {"field_name": field, "field_schema": TEXT})
    words = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))  # noqa: E731
    points = [
        {
            "id": n,
            "vector": {"a": [rng.uniform(-1, 1) for _ in range(DIM)], "b": [rng.uniform(-1, 1) for _ in range(3)]},
            "payload": {"n": n, "group": n % 7, "label": f"l{n % 5}", "title": words(3), "body": words(20)},
        }
        for n in range(POINTS)
    ]
    http.result("PUT", f"{PATH}?wait=true", {"points": points})


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """One server, and three nodes of three shards."""
    with one_and_three(tmp_path_factory.mktemp("divided"), fill, ["--slow-query", "0ms"]) as servers:
        yield servers


@pytest.fixture(scope="module")
def both(servers):
    """Asks both the same: what they answer, the one server first."""
    https = [server.http() for server in servers]

    def ask(path, body):
        return [http.call("POST", f"{PATH}/{path}", body) for http in https]

    yield ask
    for http in https:
        http.close()


def same(one, three, text=""):
    """The same points with the same scores; what has equal scores in any order."""
    assert len(one) == len(three), f"{one}\n{three}\n{text}"
    for a, b in zip(one, three):
        assert close(a["score"], b["score"]), f"{one}\n{three}\n{text}"
        alike = [p["score"] for p in one if close(p["score"], a["score"])]
        if len(alike) == 1:
            assert {**a, "score": 0, "version": 0} == {**b, "score": 0, "version": 0}, text


class Draw:
    """Stages at random, of as many levels as are left."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def vector(self, name):
        return [self.rng.uniform(-1, 1) for _ in range(DIM if name == "a" else 3)]

    def leaf(self):
        kind = self.rng.choice(["nearest", "nearest", "text", "mmr", "given"])
        if kind == "text":
            return {"query": {"text": " ".join(self.rng.sample(WORDS, 2))}, "using": self.rng.choice(["title", "body"])}
        if kind == "given":
            ids = self.rng.sample(range(POINTS), 9)
            return {"query": {"given": {"ids": ids, "scores": [self.rng.uniform(-1, 1) for _ in ids]}}}
        name = self.rng.choice("ab")
        mmr = {"mmr": {"diversity": 0.4, "candidates_limit": 30}} if kind == "mmr" else {}
        return {"query": {"nearest": self.vector(name), **mmr}, "using": name}

    def formula(self, sources):
        score = self.rng.choice(["$score", f"$score[{sources - 1}]"])
        sum_ = [score, {"mult": [0.001, "n"]}, {"key": "group", "match": {"value": 3}}]
        return {"query": {"formula": {"sum": self.rng.sample(sum_, self.rng.randint(1, 3)) + [{"mult": [0.5, "$score[0]"]}]}, "defaults": {"$score[0]": -0.25}}}

    def stage(self, depth):
        if depth == 0:
            found = self.leaf()
        else:
            sources = [self.stage(self.rng.randint(0, depth - 1)) for _ in range(self.rng.randint(1, 3))]
            kind = self.rng.choice(["fusion", "dbsf", "formula", "formula", "again"])
            made = {
                "fusion": lambda: {"query": {"rrf": {"k": 3, "weights": [self.rng.uniform(0.1, 2) for _ in sources]}}},
                "dbsf": lambda: {"query": {"fusion": "dbsf"}},
                "formula": lambda: self.formula(len(sources)),
                "again": lambda: {"query": self.vector("a"), "using": "a"},
            }[kind]()
            found = {"prefetch": sources, **made}
        more = {}
        if self.rng.random() < 0.3:
            more["filter"] = {"must_not": [{"key": "label", "match": {"value": "l1"}}]}
        if self.rng.random() < 0.2 and "formula" in str(found.get("query")):
            more["score_threshold"] = 0.1
        return {**found, **more, "limit": self.rng.choice([3, 10, 40])}


def test_stages_over_stages(both):
    """Fusions and formulas over any stages, also over each other: the scores are those of one server."""
    draw = Draw("stages")
    over = 0
    for _ in range(150):
        body = draw.stage(3) | {"with_payload": draw.rng.choice([False, ["n"]])}
        one, three = both("query", body)
        same(one["result"]["points"], three["result"]["points"], json.dumps(body))
        inner = [p for p in body.get("prefetch", []) if "prefetch" in p and "formula" in str(p["query"])]
        over += bool(inner and "formula" in str(body["query"]))
    assert over > 5, "formulas over formulas are drawn"


def test_stages_over_stages_in_batches_and_groups(both):
    draw = Draw("batches")
    for _ in range(20):
        searches = [draw.stage(2) for _ in range(4)]
        one, three = both("query/batch", {"searches": searches})
        for a, b, text in zip(one["result"], three["result"], searches):
            same(a["points"], b["points"], json.dumps(text))
        body = draw.stage(2) | {"group_by": "group", "group_size": 2, "limit": 3}
        one, three = both("query/groups", body)
        one, three = (sorted(p["score"] for g in answer["result"]["groups"] for p in g["hits"]) for answer in (one, three))
        assert len(one) == len(three) and all(close(a, b) for a, b in zip(one, three)), json.dumps(body)


def test_formulas_over_stages_by_grpc(servers):
    clients = [conftest.client_of(server, prefer_grpc=True) for server in servers]
    draw = Draw("grpc")
    for _ in range(20):
        near = [models.Prefetch(query=draw.vector(name), using=name, limit=20) for name in "ab"]
        fused = models.Prefetch(prefetch=near, query=models.FusionQuery(fusion=models.Fusion.RRF), limit=15)
        summed = models.SumExpression(sum=["$score", models.MultExpression(mult=[0.01, "n"])])
        inner = models.Prefetch(prefetch=[fused, near[0]], query=models.FormulaQuery(formula=summed), limit=12)
        outer = models.MultExpression(mult=["$score", 2.0])
        one, three = (client.query_points("docs", prefetch=[inner, fused], query=models.FormulaQuery(formula=outer)).points for client in clients)
        same([p.model_dump() for p in one], [p.model_dump() for p in three])
    for client in clients:
        client.close()


def test_equal_scores_stay_in_the_order_of_the_list(both):
    """A formula that says nothing: what was nearest stays first."""
    nearest = {"query": Draw("ties").vector("a"), "using": "a", "limit": 40}
    body = {"prefetch": nearest, "query": {"formula": 1.0}, "limit": 12}
    order, _ = both("query", nearest | {"limit": 12})
    for answer in both("query", body):
        assert [p["id"] for p in answer["result"]["points"]] == [p["id"] for p in order["result"]["points"]]


def test_points_that_are_given(both):
    given = {"given": {"ids": [7, 299, 5, 7, 10_000, 12], "scores": [0.5, -1, 2, 9, 1, 0.25]}}
    body = {"query": given, "with_payload": ["n"], "filter": {"must_not": [{"has_id": [12]}]}}
    for answer in both("query", body):
        assert [(p["id"], p["score"], p["payload"]["n"]) for p in answer["result"]["points"]] == [(7, 0.5, 7), (299, -1, 299), (5, 2, 5)]
    for answer in both("query", body | {"offset": 1, "limit": 1}):
        assert [p["id"] for p in answer["result"]["points"]] == [299]
    for answer in both("query/batch", {"searches": [body, body | {"score_threshold": 0.5}]}):
        assert [[p["id"] for p in one["points"]] for one in answer["result"]] == [[7, 299, 5], [7, 5]]


@pytest.mark.parametrize("given", [{"ids": [1], "scores": []}, {"ids": [1]}, {"ids": [1], "scores": ["x"]}, {"ids": [1], "scores": [1e39]}])
def test_what_is_given_wrongly_is_refused(servers, given):
    for server in servers:
        http = server.http()
        for body in ({"query": {"given": given}}, {"prefetch": {"query": {"given": given}}, "query": {"fusion": "rrf"}}):
            with pytest.raises(Answer) as refused:
                http.call("POST", f"{PATH}/query", body)
            assert refused.value.status in (400, 422), refused.value
        with pytest.raises(Answer) as refused:
            http.call("POST", f"{PATH}/query", {"prefetch": {"query": {"text": "sea"}, "using": "body"}, "query": {"given": {"ids": [1], "scores": [1]}}})
        assert refused.value.status == 400 and "prefetches" in refused.value.sentence()
        http.close()


TEXTS = [{"query": {"text": "winter sea"}, "using": "body", "limit": 30}, {"query": {"text": "ship"}, "using": "title", "limit": 30}]
LISTS = [*TEXTS, {"query": [1, 0, 0, 1, 0, 0], "using": "a", "limit": 30}]


@pytest.mark.parametrize("how", [True, {"pre": "[", "post": "]", "fragments": 0}, {"offsets": "utf-8"}, {"texts": [{"using": "body", "text": "bread"}]}])
@pytest.mark.parametrize(
    "body",
    [
        {"prefetch": LISTS, "query": {"fusion": "rrf"}},
        {"prefetch": LISTS, "query": {"fusion": "rrf"}, "offset": 7},
        {"prefetch": [{"prefetch": TEXTS, "query": {"fusion": "dbsf"}}, LISTS[2]], "query": {"fusion": "rrf"}},
        {"prefetch": LISTS, "query": {"formula": {"sum": ["$score[0]", {"mult": [0.01, "n"]}]}}},
        {"prefetch": {"prefetch": LISTS, "query": {"fusion": "rrf"}}, "query": {"formula": {"sum": ["$score", {"mult": [0.001, "n"]}]}}},
        {"prefetch": LISTS, "query": [0, 1, 0, 0, 0, 1], "using": "a"},
        {"prefetch": LISTS, "query": {"text": "dog"}, "using": "title"},
        {"prefetch": TEXTS, "query": {"nearest": [0, 1, 0, 0, 0, 1], "mmr": {"candidates_limit": 20}}, "using": "a"},
        {"query": [0, 1, 0, 0, 0, 1], "using": "a"},
        {"query": {"text": "dog"}, "using": "title"},
    ],
)
def test_highlights_have_the_words_of_all_stages(both, body, how):
    body = body | {"highlight": how, "with_payload": ["n"], "limit": 25}
    one, three = both("query", body)
    same(one["result"]["points"], three["result"]["points"])
    assert all("highlights" in p for p in three["result"]["points"])
    in_batch = both("query/batch", {"searches": [body]})
    same(in_batch[0]["result"][0]["points"], in_batch[1]["result"][0]["points"])


def test_highlights_of_other_words(both):
    """Words are marked that no query of the request has."""
    body = {"query": [0, 1, 0, 0, 0, 1], "using": "a", "limit": POINTS, "highlight": {"fragments": 0, "texts": [{"using": "title", "text": "cat"}]}}
    for answer in both("query", body):
        marked = [p["highlights"]["title"] for p in answer["result"]["points"] if "title" in p["highlights"]]
        assert len(marked) > 20 and all("<em>cat</em>" in text for [text] in marked)


@pytest.mark.parametrize("how", [{"fragments": 17}, {"texts": [{"using": "label", "text": "a"}]}, {"texts": [{"using": "body"}]}, {"texts": [{"using": "body", "text": "a"}] * 2_049}])
def test_highlights_that_make_no_sense_are_refused(servers, how):
    for server in servers:
        http = server.http()
        for body in ({"query": {"text": "nobodyhasthis"}, "using": "body"}, {"prefetch": LISTS, "query": {"fusion": "rrf"}}):
            with pytest.raises(Answer) as refused:
                http.call("POST", f"{PATH}/query", body | {"highlight": how})
            assert refused.value.status in (400, 422), refused.value
        http.close()


def explain_of(both, path, body):
    told = both(path, body)
    plain = both(path, without_explain(body))
    for answer, bare in zip(told, plain):
        assert "explain" not in bare and answer["result"] == bare["result"], "it changes nothing"
    return [answer["explain"] for answer in told]


def without_explain(body):
    if "searches" in body:
        return {"searches": [without_explain(one) for one in body["searches"]]}
    return {name: value for name, value in body.items() if name != "params"}


def check(one, three, requests=None):
    """What is told of three shards is in the shape of one server, and adds up."""
    assert KEYS <= set(one) and set(one) < set(three), (set(one), set(three))
    assert set(one["time_us"]) == set(three["time_us"])
    segments = [part for part in three["segments"] if "shard" in part]
    assert {part["shard"] for part in segments} == {0, 1, 2}
    assert three["segments_count"] == len(three["segments"])
    assert set(one["segments"][0]) | {"shard"} == set(segments[0])
    assert three["rows_scored"] == sum(part["rows_scored"] for part in three["segments"]) == sum(shard["rows_scored"] for shard in three["shards"])
    assert [shard["shard"] for shard in three["shards"]] == [0, 1, 2]
    for shard in three["shards"]:
        assert len(shard["nodes"]) == 1 and shard["nodes"][0].startswith("http://"), shard
        assert shard["waited_us"] > 0 and shard["time_us"]["total"] > 0, shard
        assert requests is None or shard["requests"] == requests, shard
    us = three["time_us"]
    assert us["total"] >= us["search"] > 0
    assert set(one["stages"][0] if one["stages"] else {"stage"}) <= {"stage", "time_us", "read_wait_us", "reads", "read_bytes"}


def test_explain_of_shards(both):
    explain = {"params": {"explain": True}}
    near = {"query": [1, 0, 0, 1, 0, 0], "using": "a", "limit": 5}
    one, three = explain_of(both, "query", near | explain)
    check(one, three, 1)
    assert one["rows_scored"] == three["rows_scored"] == POINTS
    # The older route, and groups.
    for path, body in [
        ("search", {"vector": {"name": "a", "vector": near["query"]}, "limit": 5}),
        ("query/groups", near | {"group_by": "group"}),
        ("recommend", {"positive": [1, 2], "using": "a", "limit": 5}),
    ]:
        check(*explain_of(both, path, body | explain))
    # A fusion is done where the lists meet, a formula by the shards.
    one, three = explain_of(both, "query", {"prefetch": LISTS, "query": {"fusion": "rrf"}} | explain)
    check(one, three, len(LISTS))
    for told in (one, three):
        [fusion] = [part for part in told["segments"] if part["index"] == "fusion"]
        assert fusion["rows"] == sum(prefetch["limit"] for prefetch in LISTS) and "shard" not in fusion
    one, three = explain_of(both, "query", {"prefetch": LISTS, "query": {"formula": "n"}} | explain)
    check(one, three, len(LISTS) + 1)
    assert sorted(part["shard"] for part in three["segments"] if part["index"] == "formula") == [0, 1, 2]


def test_explain_of_batches(both):
    near = {"query": [1, 0, 0, 1, 0, 0], "using": "a", "limit": 5}
    explained = near | {"params": {"explain": True}}
    for searches in ([explained, near, explained], [explained, {"prefetch": LISTS, "query": {"fusion": "rrf"}}, near]):
        one, three = both("query/batch", {"searches": searches})
        assert len(one["explain"]) == len(three["explain"]) == 3
        check(one["explain"][0], three["explain"][0], 1)
        assert three["explain"][0]["rows_scored"] == POINTS


def test_explain_says_what_payloads_were_read(servers, both):
    """The count is that of all shards. They read payloads of segments alone."""
    body = {"query": [1, 0, 0, 1, 0, 0], "using": "a", "filter": {"must": [{"key": "label", "match": {"value": "l2"}}]}, "params": {"explain": True}}
    _, three = explain_of(both, "query", body)
    said = [line for line in three["meaning"] if "no payload index on `label`" in line]
    checked = sum(part["rows_checked"] for part in three["segments"] if part["payloads_checked"])
    assert len(said) == (checked > 0) and all(f"{checked:,} payloads were read" in line for line in said), three


def test_explain_by_grpc_and_by_the_command_line(servers):
    three = servers[1]
    channel = grpc.insecure_channel(f"127.0.0.1:{three.grpc_port}")
    query = api.QueryPoints(collection_name="docs", query=api.Query(nearest=api.VectorInput(dense=api.DenseVector(data=[1] * DIM))), using="a")
    _, call = api.PointsStub(channel).Query.with_call(query, metadata=[("ramlet-explain", "1")])
    told = json.loads(dict(call.initial_metadata())["ramlet-explain"])
    assert [shard["shard"] for shard in told["shards"]] == [0, 1, 2] and told["rows_scored"] == POINTS, told
    _, call = api.PointsStub(channel).Query.with_call(query)
    assert "ramlet-explain" not in dict(call.initial_metadata())
    channel.close()
    command = [str(binary()), "search", "--collection", "docs", "--url", three.url, "--like", "3", "--using", "a", "--explain"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for shard in range(3):
        assert re.search(rf"  shard {shard}: \d+\.\d\d ms in 1 requests, at work \d+\.\d\d ms, \d+ reads \(http://", said), said
        assert f"  shard {shard}, write buffer of `a`: buffer" in said, said


def test_slow_requests_name_their_shards(servers):
    """The node that was asked keeps how each shard did its part, without being asked for it."""
    http = servers[1].http()
    body = {"query": [0.5, 0, 0, 1, 0, 0], "using": "a", "limit": 4}
    http.call("POST", f"{PATH}/query", body)
    slow = http.result("GET", "/profiler/slow_requests?limit=1000&request=query")["requests"]
    [kept] = [one for one in slow if one["request_body"] == body]
    assert sorted(shard["shard"] for shard in kept["explain"]["shards"]) == [0, 1, 2], kept
    http.close()


def test_quick_parts_of_the_work_tell_nothing_more(servers):
    """A node that asks for the log of slow requests alone says from when on it wants to know: most requests are quick."""
    http = servers[1].http()
    http.headers["ramlet-shard"] = str(http.result("GET", "/cluster")["store"]["shard"])
    body = {"query": [0.5, 0, 0, 1, 0, 0], "using": "a", "limit": 4, "params": {"explain": True}}
    for microseconds, is_told in [(10**12, False), (1, True)]:
        http.headers["ramlet-told-from"] = str(microseconds)
        for path, asked in [("query", body), ("query/batch", {"searches": [body]}), ("query/groups", body | {"group_by": "group"})]:
            assert ("explain" in http.call("POST", f"{PATH}/{path}", asked)) == is_told, path
    http.close()


def test_limits_beyond_all_points(both):
    """They are those of all points, as in one server."""
    near = {"query": [1, 0, 0, 1, 0, 0], "using": "a"}
    for more, found in [({"limit": 1 << 62}, POINTS), ({"limit": 5, "offset": 1 << 62}, 0), ({"limit": 1 << 62, "offset": 290}, 10)]:
        for answer in both("query", near | more):
            assert len(answer["result"]["points"]) == found, more
        for answer in both("query/batch", {"searches": [near | more]}):
            assert len(answer["result"][0]["points"]) == found, more
    for answer in both("query/groups", near | {"group_by": "group", "limit": 1 << 40, "group_size": 2}):
        assert len(answer["result"]["groups"]) == 7


def test_the_picture_of_a_collection(servers):
    shown = []
    for server in servers:
        http = server.http()
        path = "/collections/docs/projection"
        told = http.result("GET", f"{path}?using=a&sample={POINTS}")
        assert sorted(point["id"] for point in told["points"]) == list(range(POINTS))
        assert all(isinstance(point[axis], float) for point in told["points"] for axis in "xy")
        shown.append(told["variance_shown"])
        assert len({point["id"] for point in http.result("GET", f"{path}?using=a&sample=20")["points"]}) == 20
        with pytest.raises(Answer) as refused:
            http.call("GET", f"{path}?using=other")
        assert refused.value.status == 400 and "dense vectors: a, b" in refused.value.sentence()
        http.close()
    assert close(*shown), shown
