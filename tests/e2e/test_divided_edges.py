"""Limits of 0, fields that are unset or null, and empty lists: three shards answer, and refuse, as one server does, over REST and gRPC."""

import itertools
import json
import re

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from harness.divided import one_and_three
from qdrant_client import grpc as api

import conftest
from test_divided_queries import DIM, fill

pytestmark = pytest.mark.skipif(conftest.SELF, reason="needs servers")

PATH = "/collections/docs/points"
VECTOR = [1, 0, 0, 1, 0, 0]
NEAR = {"query": VECTOR, "using": "a"}
LIMITS = [{}, {"limit": 0}, {"limit": None}, {"limit": 0, "offset": 3}]
WRONG_LIMITS = [{"limit": -1}, {"limit": 1.5}, {"limit": "3"}, {"offset": -1}, {"limit": 3, "offset": None}]
# What may differ from one answer to the next.
VARYING = {"time", "usage", "operation_id", "operationId", "version"}


def examples(**more):
    return {"query": {"recommend": more}, "using": "a"}


def prefetched(prefetch, query, **more):
    return {"prefetch": prefetch, "query": query, **more}


LIST, NOTHING = NEAR | {"limit": 5}, NEAR | {"limit": 0}
RRF = {"fusion": "rrf"}
NO_PARTS = {"filter": None, "params": None, "prefetch": None, "score_threshold": None}
QUERIES = [
    NEAR,
    *({"query": query, "using": "a"} for query in (3, 9_999, [], [1], None, {"nearest": {"indices": [], "values": []}})),
    *({"query": VECTOR, "using": using} for using in (None, "", "none")),
    {},
    {"query": {"order_by": "n"}},
    {"query": RRF},
    {"query": {"formula": 1.0}},
    *(prefetched(prefetch, RRF) for prefetch in ([], None, {}, [{}], [LIST], [NOTHING], [LIST | NO_PARTS], [{"query": RRF}])),
    *(prefetched([LIST], RRF, using=using) for using in ("a", "")),
    *(prefetched([LIST], RRF, **{name: it}) for name in ("with_payload", "with_vector") for it in (None, [])),
    *(prefetched([LIST], {"rrf": rrf}) for rrf in ({}, {"weights": []}, {"k": 0}, {"k": None})),
    *(prefetched([prefetch], query, using="a") for prefetch in (LIST, NOTHING) for query in (VECTOR, None)),
    *(prefetched([prefetch], {"formula": "$score"}) for prefetch in (LIST, NOTHING)),
    prefetched([LIST], {"order_by": "n"}),
    *(examples(**more) for more in ({}, {"positive": []}, {"positive": [], "negative": []}, {"positive": [1], "negative": None}, {"negative": [1]})),
    *(examples(strategy=strategy, negative=[1]) for strategy in ("best_score", "sum_scores")),
    examples(strategy="best_score", positive=[]),
    *({"query": {"discover": of}, "using": "a"} for of in ({"target": 1}, {"target": 1, "context": []}, {"target": 1, "context": None}, {"context": []})),
    *({"query": {"context": context}, "using": "a"} for context in ([], None)),
    *({"query": {"nearest": VECTOR, "mmr": mmr}, "using": "a"} for mmr in ({}, {"candidates_limit": 0}, None, {"diversity": 2})),
    {"query": {"given": {"ids": [], "scores": []}}},
    *({"query": {"text": text}, "using": using} for text, using in (("", "body"), ({"query": ""}, "body"), ("sea", "none"), ("sea", ""))),
    *(NEAR | {"filter": it} for it in ({}, None, {"must": []}, {"must": None}, {"should": []}, {"min_should": {"conditions": [], "min_count": 1}})),
    *(NEAR | {"filter": {"must": [it]}} for it in ({"has_id": []}, {"key": "n", "match": {"any": []}}, {"key": "n", "range": {}}, {"filter": {}})),
    *(NEAR | {"params": params} for params in (None, {}, {"exact": None}, {"quantization": None}, {"hnsw_ef": 0})),
    *(NEAR | {"score_threshold": threshold} for threshold in (None, 0)),
    *(NEAR | {"with_payload": it} for it in (None, [], {"include": []}, {"exclude": []}, {})),
    *(NEAR | {"with_vector": it} for it in ([], None, ["none"])),
    *({"query": 3, "using": "a", "lookup_from": it} for it in (None, {"collection": "none"}, {"collection": "docs"}, {"collection": "docs", "vector": "b"})),
    *(NEAR | {"shard_key": it} for it in (None, [], "x")),
    *(NEAR | {"highlight": it} for it in (None, {}, True, False)),
]
GROUPED = [{}, {"limit": 0}, {"group_size": 0}, {"limit": None, "group_size": None}]
LOOKUPS = [None, "none", "docs", {"collection": "docs"}, {}, {"collection": "docs", "with_payload": None, "with_vectors": None}]
SEARCH = {"vector": {"name": "a", "vector": VECTOR}}
RECOMMENDED = [{"positive": [1]}, {"positive": []}, {}, {"negative": [3], "strategy": "best_score"}, {"positive": [99_999]}, {"positive": [1], "lookup_from": {"collection": "none"}}]
DISCOVERED = [{"target": 1}, {"target": 1, "context": []}, {"context": []}, {}, {"context": None}, {"context": [{"positive": 1, "negative": 2}]}]
NO_IDS = {"filter": {"must": [{"has_id": []}]}}


def reads():
    for body, more in itertools.product(QUERIES, LIMITS):
        yield f"{PATH}/query", body | more
    for more in WRONG_LIMITS:
        yield f"{PATH}/query", NEAR | more
    for body, more in itertools.product(QUERIES, GROUPED):
        yield f"{PATH}/query/groups", {"group_by": "group"} | body | more
    for more in [{}, *({"group_by": field} for field in ("", None, "none")), *({"group_by": "n", "with_lookup": it, "limit": 3} for it in LOOKUPS)]:
        yield f"{PATH}/query/groups", NEAR | more
    for body in QUERIES:
        yield f"{PATH}/query/batch", {"searches": [body | {"limit": 0}, body]}
    for body in ({"searches": []}, {"searches": None}, {}, {"searches": [{}]}, {"searches": {}}):
        yield f"{PATH}/query/batch", body
    for more in [{"limit": 3}, *LIMITS, *WRONG_LIMITS]:
        yield f"{PATH}/search", SEARCH | more
        yield f"{PATH}/search/groups", SEARCH | {"group_by": "group", "group_size": 1} | more
        yield f"{PATH}/recommend/groups", {"positive": [1], "using": "a", "group_by": "group", "group_size": 1} | more
        for kind, bodies in (("search", [SEARCH]), ("recommend", RECOMMENDED), ("discover", DISCOVERED)):
            for body in bodies:
                body = body | {"using": "a"} | more if kind != "search" else body | more
                yield f"{PATH}/{kind}", body
                yield f"{PATH}/{kind}/batch", {"searches": [body]}
        for it in ({}, {"filter": {}}, {"order_by": "n"}, {"order_by": {"key": "n", "start_from": None}}, {"order_by": None}, {"order_by": {"key": "none"}}):
            yield f"{PATH}/scroll", it | more
        for it in ({"key": "label"}, {"key": "none"}, {"key": ""}, {}, {"key": "label", "exact": None, "filter": None}):
            yield "/collections/docs/facet", it | more
        for it in ({"using": "a", "sample": 0}, {"using": "a", "sample": 1}, {"sample": 5}, {"using": "none", "sample": 5}):
            yield f"{PATH}/search/matrix/pairs", it | more
    for body in ({}, {"filter": None}, {"filter": {}}, {"exact": None}):
        yield f"{PATH}/count", body
    for body in ({"ids": []}, {"ids": None}, {}, {"ids": [1, 1]}, {"ids": [1, 99_999]}, {"ids": ["x"]}, *({"ids": [1], name: it} for name in ("with_payload", "with_vector") for it in ([], None))):
        yield PATH, body


def missing():
    """Of a collection that isn't there: what is told first."""
    bodies = [{}, {"limit": 0}, NEAR | {"limit": 0}, {"searches": []}, {"group_by": "x", "limit": 0}, {"positive": [], "limit": 0}, SEARCH | {"limit": 0}]
    bodies += [{"key": "x", "limit": 0}, {"sample": 0}, {"sample": 5}, {"query": 5}]
    paths = [f"/points/{path}" for path in ("query", "scroll", "count", "query/batch", "query/groups", "search", "recommend", "discover", "search/matrix/pairs")]
    for path, body in itertools.product([*paths, "/facet"], bodies):
        yield f"/collections/none{path}", body


def writes():
    columns = [{"ids": [], "vectors": []}, {"ids": [], "vectors": {"a": []}, "payloads": []}, {"ids": [1], "vectors": {"a": []}}, {"ids": [1], "vectors": {"a": [VECTOR]}, "payloads": [None]}, {}]
    ids = [{"points": []}, {"points": None}, {}, {"filter": None}, NO_IDS, NO_IDS | {"points": []}, {"points": [], "filter": None}]
    for body in [{"points": []}, {"points": None}, {}, *({"batch": it} for it in columns), *({"points": [{"id": 1, **it}]} for it in ({}, {"vector": {}}, {"vector": {}, "payload": None}, {"vector": []}))]:
        yield "PUT", PATH, body
    for body in [{"points": []}, {}, *({"points": [it]} for it in ({"id": 1, "vector": {}}, {"id": 99_999, "vector": {"a": VECTOR}}, {"id": 1}))]:
        yield "PUT", f"{PATH}/vectors", body
    for it in ids:
        yield "POST", f"{PATH}/delete", it
        yield "POST", f"{PATH}/payload/clear", it
        for more in ({}, {"vector": []}, {"vector": ["a"]}):
            yield "POST", f"{PATH}/vectors/delete", it | more
        for method, more in itertools.product(("POST", "PUT"), ({}, {"payload": {}}, {"payload": {"x": 1}}, {"payload": None})):
            yield method, f"{PATH}/payload", it | more
        for more in ({}, {"keys": []}, {"keys": ["x"]}):
            yield "POST", f"{PATH}/payload/delete", it | more
    inner = [{}, {"none": {}}, {"upsert": None}, {"upsert": {"points": []}}, {"delete": {"points": []}}, {"delete": {"points": []}, "upsert": {"points": []}}, {"set_payload": {"payload": {}, "points": []}}]
    for body in [{"operations": []}, {"operations": None}, {}, *({"operations": [it, {"delete": {"points": [1_001]}}]} for it in inner)]:
        yield "POST", f"{PATH}/batch", body


def others():
    yield "GET", "/collections/docs/projection?using=a&sample=0", None
    for body in (None, {"vectors": {}}, {"vectors": None, "shard_number": 0}, {}, None, {}):
        yield "PUT", "/collections/new", body
    for path in ("/collections/new", "/collections/new", "/collections/none", "/collections/docs/index/none"):
        yield "DELETE", path, None
    for body in ({}, None, {"optimizers_config": None}, {"params": {}}, {"vectors": {}}):
        yield "PATCH", "/collections/docs", body
    for body in ({"actions": []}, {}, {"actions": [{}]}, {"actions": [{"delete_alias": {"alias_name": "none"}}]}):
        yield "POST", "/collections/aliases", body
    for body in ({}, {"shard_key": None}, {"shard_key": "a"}):
        yield "PUT", "/collections/docs/shards", body
        yield "POST", "/collections/docs/shards/delete", body


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    def filled(http):
        fill(http)
        for field, kind in (("label", "keyword"), ("n", "integer")):
            http.result("PUT", "/collections/docs/index?wait=true", {"field_name": field, "field_schema": kind})

    with one_and_three(tmp_path_factory.mktemp("edges"), filled) as servers:
        yield servers


def plain(value):
    """Without what may differ: times, versions, the last digits, and where in the text of JSON something is wrong (each shard's is its own)."""
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items() if name not in VARYING}
    if isinstance(value, list):
        return [plain(of) for of in value]
    if isinstance(value, str) and "Format error in JSON body" in value:
        return re.sub(r"at line \d+ column \d+|struct Batch|an object", "", value)
    return round(value, 3) if isinstance(value, float) else value


def same_rest(servers, cases):
    https = [server.http() for server in servers]
    different, count = [], 0
    for method, path, body in cases:
        count += 1
        answers = []
        for http in https:
            status, _, answer = http.raw(method, path, None if body is None else json.dumps(body))
            answers.append((status, plain(json.loads(answer))))
        if answers[0] != answers[1]:
            different.append(f"{method} {path} {json.dumps(body)}\n  {answers[0]}\n  {answers[1]}")
    for http in https:
        http.close()
    assert not different, f"{len(different)} of {count}:\n" + "\n".join(different[:20])
    return count


def test_reads(servers):
    assert same_rest(servers, (("POST", *case) for case in reads())) > 900


def test_reads_of_what_is_not_there(servers):
    same_rest(servers, (("POST", *case) for case in missing()))


@pytest.mark.parametrize("wait", ["?wait=true", ""])
def test_writes(servers, wait):
    same_rest(servers, ((method, path + wait, body) for method, path, body in writes()))


def test_others(servers):
    same_rest(servers, others())


def messages():
    """Method, and messages with nothing in them, or 0."""
    near = api.Query(nearest=api.VectorInput(dense=api.DenseVector(data=VECTOR)))
    one = [api.PointId(num=1)]
    target = api.TargetVector(single=api.VectorExample(id=one[0]))
    pair = api.ContextExamplePair(positive=api.VectorExample(id=one[0]), negative=api.VectorExample(id=api.PointId(num=2)))
    docs = {"collection_name": "docs"}
    lists = [api.PrefetchQuery(query=near, using="a", limit=limit) for limit in (0, 5)] + [api.PrefetchQuery(), api.PrefetchQuery(query=near, using="a")]
    of = api.Query
    kinds = [of(), of(recommend=api.RecommendInput()), of(discover=api.DiscoverInput()), of(context=api.ContextInput()), of(order_by=api.OrderBy()), of(fusion=api.Fusion.RRF), of(formula=api.Formula())]
    kinds += [of(nearest=api.VectorInput()), of(nearest_with_mmr=api.NearestInputWithMmr()), of(rrf=api.Rrf()), near, of(nearest=api.VectorInput(id=api.PointId()))]
    for query in kinds:
        for more in ({}, {"limit": 0}, {"limit": 3, "offset": 0}):
            yield "Query", api.QueryPoints(**docs, query=query, using="a", **more)
            yield "QueryGroups", api.QueryPointGroups(**docs, query=query, using="a", group_by="group", **{name: it for name, it in more.items() if name == "limit"})
        for prefetch in lists:
            yield "Query", api.QueryPoints(**docs, query=query, prefetch=[prefetch])
    selectors = {"filter": api.Filter(), "params": api.SearchParams(), "with_payload": api.WithPayloadSelector(), "with_vectors": api.WithVectorsSelector(), "lookup_from": api.LookupLocation(), "shard_key_selector": api.ShardKeySelector()}
    for name, it in selectors.items():
        yield "Query", api.QueryPoints(**docs, query=near, using="a", **{name: it})
    yield "Query", api.QueryPoints()
    yield "Query", api.QueryPoints(collection_name="none")
    for points in ([], [api.QueryPoints()], [api.QueryPoints(**docs, query=near, using="a", limit=0), api.QueryPoints(**docs, query=near, using="a")]):
        yield "QueryBatch", api.QueryBatchPoints(**docs, query_points=points)
    for more in ({}, {"group_by": "group", "group_size": 0}, {"group_by": "group", "with_lookup": api.WithLookup()}):
        yield "QueryGroups", api.QueryPointGroups(**docs, query=near, using="a", **more)
    for limit in (0, 3):
        for more in ({}, {"vector": VECTOR}, {"vector": VECTOR, "vector_name": "a"}):
            yield "Search", api.SearchPoints(**docs, limit=limit, **more)
        recommended = [{}, {"positive": one}, {"negative": one}, {"negative": one, "strategy": api.RecommendStrategy.BestScore}, {"positive": [api.PointId(num=99_999)]}, {"positive": [api.PointId()]}]
        recommended += [{"positive_vectors": [api.Vector(data=VECTOR)]}, {"positive_vectors": [api.Vector()]}, {"positive": one, "lookup_from": api.LookupLocation()}]
        for using, more in itertools.product(("a", "none"), recommended):
            message = api.RecommendPoints(**docs, limit=limit, using=using, **more)
            yield "Recommend", message
            yield "RecommendBatch", api.RecommendBatchPoints(**docs, recommend_points=[message, api.RecommendPoints(**docs, limit=2, using="a", positive=[api.PointId(num=7)])])
        yield "RecommendGroups", api.RecommendPointGroups(**docs, positive=one, using="a", group_by="group", limit=limit, group_size=limit)
        for more in ({}, {"target": target}, {"target": api.TargetVector()}, {"context": [api.ContextExamplePair()]}, {"context": [pair]}):
            message = api.DiscoverPoints(**docs, limit=limit, using="a", **more)
            yield "Discover", message
            yield "DiscoverBatch", api.DiscoverBatchPoints(**docs, discover_points=[message])
        yield "SearchGroups", api.SearchPointGroups(**docs, vector=VECTOR, vector_name="a", group_by="group", limit=limit, group_size=limit)
        yield "Facet", api.FacetCounts(**docs, key="label", limit=limit)
        yield "SearchMatrixOffsets", api.SearchMatrixPoints(**docs, using="a", sample=1, limit=limit)
        for more in ({}, {"offset": api.PointId()}, {"order_by": api.OrderBy()}, {"order_by": api.OrderBy(key="n", start_from=api.StartFrom())}, {"filter": api.Filter()}):
            yield "Scroll", api.ScrollPoints(**docs, limit=limit, **more)
    yield "SearchMatrixPairs", api.SearchMatrixPoints(**docs, using="a", sample=0)
    yield "Facet", api.FacetCounts(**docs)
    yield "Count", api.CountPoints(**docs, filter=api.Filter())
    for ids in ([], [api.PointId()], [*one, *one, api.PointId(num=99_999)]):
        yield "Get", api.GetPoints(**docs, ids=ids, with_payload=api.WithPayloadSelector())
    for points in ([], [api.PointStruct()], [api.PointStruct(id=one[0])]):
        yield "Upsert", api.UpsertPoints(**docs, wait=True, points=points)
    selected = [None, api.PointsSelector(), api.PointsSelector(points=api.PointsIdsList()), api.PointsSelector(filter=api.Filter(must=[api.Condition(has_id=api.HasIdCondition())]))]
    for points in selected:
        yield "Delete", api.DeletePoints(**docs, wait=True, points=points)
        yield "ClearPayload", api.ClearPayloadPoints(**docs, wait=True, points=points)
        yield "SetPayload", api.SetPayloadPoints(**docs, wait=True, points_selector=points)
        yield "DeletePayload", api.DeletePayloadPoints(**docs, wait=True, points_selector=points)
        yield "DeleteVectors", api.DeletePointVectors(**docs, wait=True, points_selector=points, vectors=api.VectorsSelector())
    operation = api.PointsUpdateOperation
    for operations in ([], [operation()], [operation(upsert=operation.PointStructList())], [operation(delete_points=operation.DeletePoints())]):
        yield "UpdateBatch", api.UpdateBatchPoints(**docs, wait=True, operations=operations)


def test_messages_of_grpc(servers):
    channels = [grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") for server in servers]
    stubs = [api.PointsStub(channel) for channel in channels]
    different, recommended = [], 0
    for name, message in messages():
        answers = []
        for stub in stubs:
            try:
                answers.append(("OK", plain(MessageToDict(getattr(stub, name)(message)))))
            except grpc.RpcError as error:
                answers.append((error.code().name, plain(error.details())))
        if answers[0] != answers[1]:
            different.append(f"{name} {message}  {answers[0]}\n  {answers[1]}")
        recommended += name == "Recommend" and message.limit == 0 and answers[0] == ("OK", {})
    for channel in channels:
        channel.close()
    assert not different, "\n".join(different[:20])
    assert recommended > 5, "a recommendation of no points is none"
    assert DIM == len(VECTOR)
