"""Settings of the index and of searches: accepted, shown as the API shows them, and recall holds under each."""

import json
import time

import numpy as np
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest
from harness.server import Server

DIM = 64
POINTS = 12_000
SMALL = models.OptimizersConfigDiff(indexing_threshold=100)

pytestmark = pytest.mark.skipif(conftest.SELF, reason="the local mode keeps no settings")


def scalar(**more):
    return models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, **more))


def product(ratio, **more):
    return models.ProductQuantization(product=models.ProductQuantizationConfig(compression=ratio, **more))


def binary(**more):
    return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(**more))


def turbo(**more):
    return models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(**more))


QUANTIZATIONS = {
    # A number that gRPC's 32 bits hold exactly.
    "scalar": scalar(quantile=0.96875, always_ram=True),
    "scalar-cold": scalar(memory=models.Memory.COLD),
    **{f"product-{r.value}": product(r, always_ram=False) for r in models.CompressionRatio},
    "binary": binary(always_ram=True),
    **{f"binary-{e.value}": binary(encoding=e) for e in models.BinaryQuantizationEncoding},
    **{f"binary-query-{e.value}": binary(query_encoding=e) for e in models.BinaryQuantizationQueryEncoding},
    "turbo": turbo(),
    **{f"turbo-{b.value}": turbo(bits=b, memory=models.Memory.CACHED) for b in models.TurboQuantBitSize},
}


@pytest.mark.parametrize("name", QUANTIZATIONS)
def test_quantization_is_kept_and_changed(remote, name):
    asked = QUANTIZATIONS[name]
    collection = f"quantization-{name}"
    remote.create_collection(
        collection,
        vectors_config={
            "own": models.VectorParams(size=4, distance=models.Distance.DOT, quantization_config=asked),
            "shared": models.VectorParams(size=4, distance=models.Distance.DOT),
        },
        quantization_config=asked,
    )
    try:
        config = remote.get_collection(collection).config
        assert config.quantization_config == asked
        assert config.params.vectors["own"].quantization_config == asked
        assert config.params.vectors["shared"].quantization_config is None
        other = binary() if name != "binary" else scalar()
        remote.update_collection(
            collection,
            quantization_config=other,
            vectors_config={"own": models.VectorParamsDiff(quantization_config=models.Disabled.DISABLED)},
        )
        config = remote.get_collection(collection).config
        assert config.quantization_config == other
        assert config.params.vectors["own"].quantization_config is None
        remote.update_collection(collection, quantization_config=models.Disabled.DISABLED)
        assert remote.get_collection(collection).config.quantization_config is None
    finally:
        remote.delete_collection(collection)


def test_graph_and_placement_settings(remote, http):
    name = "graph-settings"
    hnsw = models.HnswConfigDiff(
        m=24, ef_construct=200, full_scan_threshold=5000, max_indexing_threads=1, memory=models.Memory.PINNED, payload_m=8, inline_storage=True
    )
    vector = models.VectorParams(size=4, distance=models.Distance.DOT, hnsw_config=models.HnswConfigDiff(m=48), memory=models.Memory.COLD)
    remote.create_collection(name, vectors_config=vector, hnsw_config=hnsw)
    try:
        config = remote.get_collection(name).config
        shown = config.hnsw_config
        assert (shown.m, shown.ef_construct, shown.full_scan_threshold, shown.payload_m) == (24, 200, 5000, 8)
        assert (shown.memory, shown.inline_storage) == (models.Memory.PINNED, True)
        assert config.params.vectors.memory == models.Memory.COLD
        assert config.params.vectors.hnsw_config == models.HnswConfigDiff(m=48)
        remote.update_collection(
            name,
            hnsw_config=models.HnswConfigDiff(ef_construct=64),
            vectors_config={"": models.VectorParamsDiff(hnsw_config=models.HnswConfigDiff(), memory=models.Memory.CACHED)},
        )
        config = remote.get_collection(name).config
        assert (config.hnsw_config.m, config.hnsw_config.ef_construct) == (24, 64)
        assert config.params.vectors.memory == models.Memory.CACHED
        assert config.params.vectors.hnsw_config is None, "an empty object takes the vector's own settings away"
        # Own settings: for the collection, and for a vector before it.
        http.call("PATCH", f"/collections/{name}", {"index": "hnsw", "recall": 0.9, "vectors": {"": {"recall": 0.99}}})
        info = http.call("GET", f"/collections/{name}")["result"]
        assert info["ramlet"]["vectors"][""] == {"index": "hnsw", "recall": pytest.approx(0.99)}
        remote.get_collection(name)
    finally:
        remote.delete_collection(name)


@pytest.mark.parametrize(
    "settings, path",
    [
        ({"quantization_config": {"scalar": {"type": "int8", "quantile": 0.4}}}, "quantization_config.scalar.quantile"),
        ({"quantization_config": {"scalar": {"type": "int4"}}}, "quantization_config"),
        ({"quantization_config": {"product": {"compression": "x3"}}}, "x3"),
        ({"quantization_config": {"binary": {"encoding": "three_bits"}}}, "three_bits"),
        ({"quantization_config": {"turbo": {"bits": "bits3"}}}, "bits3"),
        ({"hnsw_config": {"ef_construct": 3}}, "hnsw_config.ef_construct"),
        ({"hnsw_config": {"full_scan_threshold": 9}}, "hnsw_config.full_scan_threshold"),
        ({"index": "tree"}, "tree"),
        ({"recall": 1.0}, "recall"),
    ],
)
def test_wrong_settings_are_refused(http, settings, path):
    for where in (settings, {"vectors": {"size": 4, "distance": "Dot", **settings}}):
        body = {"vectors": {"size": 4, "distance": "Dot"}, **where}
        status, _, answer = http.raw("PUT", "/collections/never", body=json.dumps(body))
        assert status in (400, 422) and path.encode() in answer, answer
    status, _, _ = http.raw("GET", "/collections/never")
    assert status == 404


class Filled:
    """A collection with an index, and the truth about it."""

    def __init__(self, remote, name, **settings):
        random = np.random.default_rng(11)
        centers = random.normal(size=(60, DIM))
        near = lambda n: (centers[random.integers(0, 60, n)] + 0.6 * random.normal(size=(n, DIM))).astype(np.float32)
        self.remote, self.name, self.vectors, self.queries = remote, name, near(POINTS), near(60)
        remote.create_collection(
            name, vectors_config=models.VectorParams(size=DIM, distance=models.Distance.EUCLID), optimizers_config=SMALL, **settings
        )
        for start in range(0, POINTS, 1000):
            rows = range(start, start + 1000)
            batch = models.Batch(ids=list(rows), vectors=self.vectors[rows.start : rows.stop].tolist(), payloads=[{"mod": i % 100} for i in rows])
            remote.upsert(name, batch, wait=True)
        while remote.get_collection(name).status != models.CollectionStatus.GREEN:
            time.sleep(0.1)
        remote.create_payload_index(name, "mod", models.PayloadSchemaType.INTEGER, wait=True)

    def recall(self, below=100, limit=10, **arguments):
        found = 0
        allowed = np.arange(POINTS) % 100 < below
        if below < 100:
            condition = models.FieldCondition(key="mod", range=models.Range(lt=below))
            arguments["query_filter"] = models.Filter(must=[condition])
        for query in self.queries:
            distances = np.where(allowed, ((self.vectors - query) ** 2).sum(axis=1), np.inf)
            truth = set(np.argsort(distances)[:limit].tolist())
            hits = self.remote.query_points(self.name, query=query.tolist(), limit=limit, **arguments).points
            found += len(truth & {hit.id for hit in hits})
        return found / (limit * len(self.queries))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server whose write buffers are too small for the points here: there are segments, with an index."""
    with Server(tmp_path_factory.mktemp("small") / "data", memory="40MB") as server:
        yield server


@pytest.fixture(scope="module")
def filled(small):
    filled = Filled(conftest.client_of(small), "searched-settings")
    yield filled


@pytest.fixture
def own_http(small):
    http = small.http()
    yield http
    http.close()


def quantization(**more):
    return models.SearchParams(quantization=models.QuantizationSearchParams(**more))


@pytest.mark.parametrize(
    "params",
    [
        None,
        models.SearchParams(exact=True),
        models.SearchParams(hnsw_ef=256),
        models.SearchParams(indexed_only=True),
        quantization(ignore=True),
        quantization(rescore=True),
        quantization(rescore=True, oversampling=3.0),
        quantization(oversampling=1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("below", [100, 50, 10, 1])
def test_recall_holds_under_search_params(filled, params, below):
    least = 1.0 if params and params.exact else 0.9
    assert filled.recall(below, search_params=params) >= least


def test_scores_of_rescored_hits_are_exact(filled):
    for query in filled.queries[:5]:
        hits = filled.remote.query_points(filled.name, query=query.tolist(), limit=10, search_params=quantization(rescore=True)).points
        for hit in hits:
            assert hit.score == pytest.approx(float(np.linalg.norm(filled.vectors[hit.id] - query)), rel=1e-4)


@pytest.mark.parametrize("settings", [None, "scalar", "product-x8", "product-x64", "binary", "binary-two_bits", "turbo-bits4"])
def test_recall_holds_under_quantization(small, settings):
    name = f"recall-{settings}"
    remote = conftest.client_of(small)
    filled = Filled(remote, name, quantization_config=QUANTIZATIONS.get(settings))
    try:
        assert filled.recall() >= 0.9
        assert filled.recall(limit=3) >= 0.86
        assert filled.recall(search_params=quantization(rescore=True, oversampling=2.0)) >= 0.9
        assert filled.recall(below=10) >= 0.9
    finally:
        remote.delete_collection(name)


@pytest.mark.parametrize(
    "body, path",
    [
        ({"params": {"quantization": {"oversampling": 0.5}}}, "params.quantization.oversampling"),
        ({"params": {"recall": 1.0}}, "params.recall"),
        ({"recall": -0.1}, "recall"),
    ],
)
def test_wrong_search_params_are_refused(filled, own_http, body, path):
    query = [0.0] * DIM
    routes = {
        "query": {"query": query, **body},
        "query/batch": {"searches": [{"query": query, **body}]},
        "search": {"vector": query, "limit": 3, **body},
        "search/batch": {"searches": [{"vector": query, "limit": 3, **body}]},
    }
    for route, request in routes.items():
        status, _, answer = own_http.raw("POST", f"/collections/{filled.name}/points/{route}", body=json.dumps(request))
        assert status == 422 and path.encode() in answer, (route, answer)


def test_the_client_sees_the_refusal(filled):
    with pytest.raises(UnexpectedResponse):
        filled.remote.query_points(filled.name, query=[0.0] * DIM, search_params=quantization(oversampling=0.5))


def test_explain_and_own_recall(filled, own_http):
    path = f"/collections/{filled.name}/points"
    query = filled.queries[0].tolist()
    filters = {"filter": {"must": [{"key": "mod", "range": {"lt": 10}}]}}
    for route, body in (("query", {"query": query}), ("search", {"vector": query})):
        answer = own_http.call("POST", f"{path}/{route}", {**body, "limit": 10, **filters, "params": {"explain": True}})
        explained = answer["explain"]
        assert explained["segments_count"] == len(explained["segments"]) >= 1
        assert sum(s["rows"] for s in explained["segments"]) >= POINTS
        assert sum(s["candidates"] or 0 for s in explained["segments"]) <= POINTS // 10
        assert answer["status"] == "ok"
        assert "explain" not in own_http.call("POST", f"{path}/{route}", {**body, "limit": 10})
    answer = own_http.call("POST", f"{path}/query/batch", {"searches": [{"query": query, "params": {"explain": True}}, {"query": query}]})
    assert answer["explain"][0]["segments_count"] >= 1 and answer["explain"][1]["segments_count"] == 0
    # More recall never costs less.
    efforts = []
    for recall in (0.5, 0.8, 0.9, 0.99):
        answer = own_http.call("POST", f"{path}/query", {"query": query, "recall": recall, "params": {"explain": True}})
        efforts.append(answer["explain"]["probes"])
    assert efforts == sorted(efforts), efforts


def test_memory_tells_of_every_part(filled, own_http):
    memory = own_http.call("GET", f"/collections/{filled.name}/memory")["result"]
    assert any(v["index"] == "ivf" for s in memory["segments"] for v in s["vectors"]), memory
    for segment in memory["segments"]:
        assert 0 <= segment["drift"] <= 1
        for vector in segment["vectors"]:
            assert vector["rows"] <= segment["rows"]
            assert all(p["placement"] in ("RAM", "disk", "partly in RAM") for p in vector["parts"])
            if vector["index"] == "ivf":
                assert vector["clusters"] > 0
                assert [c["recall"] for c in vector["calibration"]] == sorted(c["recall"] for c in vector["calibration"])


def test_measured_recall_is_exported(filled, own_http):
    """Two periods of the monitor: one to ask for a query, one to measure it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        filled.remote.query_points(filled.name, query=filled.queries[0].tolist(), limit=10)
        measured = own_http.call("GET", f"/collections/{filled.name}/memory")["result"]["recall_measured"]
        if measured:
            break
        time.sleep(1)
    assert measured and measured[0]["queries"] >= 1 and 0.5 <= measured[0]["recall"] <= 1
    status, _, text = own_http.raw("GET", "/metrics")
    assert status == 200
    assert f'ramlet_recall_measured{{collection="{filled.name}",vector=""}}'.encode() in text
