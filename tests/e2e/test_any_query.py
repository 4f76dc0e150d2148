"""Queries drawn at random among all there are: any kind, over any kind of vector, through any endpoint, by REST and gRPC, against the local mode.
The other files take the kinds one by one, with what is special about each; here they meet."""

from collections import Counter

import pytest
from qdrant_client import models

import compare
import conftest
from compare import same_batches, same_hits
from test_multivectors import MAX_SIM
from test_query import World, expression, same_groups, same_order
from test_sparse import vector as sparse_vector

DENSE = {"a": 8, "b": 5}
DISTANCES = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]
CASES = 300


class Wide(World):
    """Dense vectors, a multivector and a sparse one."""

    names = ["a", "b", "m", "s"]

    def create(self):
        params = {name: models.VectorParams(size=dim, distance=self.distance) for name, dim in DENSE.items()}
        params |= {"m": models.VectorParams(size=4, distance=self.distance, multivector_config=MAX_SIM)}
        self.pair.create(params, sparse_vectors_config={"s": models.SparseVectorParams()})
        self.drawn = Counter()

    def make(self, name):
        if name == "s":
            found = sparse_vector(self.rng)
            return found if found.indices else self.make(name)
        if name == "m":
            return [self.rng.vector(4) for _ in range(self.rng.randint(1, 3))]
        return self.rng.vector(DENSE[name])

    def draw(self, *what):
        self.drawn[" ".join(what)] += 1

    def by_vector(self, name):
        # The local mode takes feedback of dense vectors alone.
        feedback = ["feedback"] if name in DENSE else []
        kinds = ["nearest", "recommend", "recommend", "discover", "context", "mmr", *feedback]
        if self.in_prefetch:
            # Of equal scores, which sparse vectors and contexts have many of, either order is right, and ranks would tell them apart.
            kinds = ["nearest"] if name == "s" else ["nearest", "recommend", *feedback]
        kind = self.rng.choice(kinds)
        makers = {
            "nearest": lambda name: self.rng.choice([self.input(name), models.NearestQuery(nearest=self.input(name))]),
            "recommend": self.recommend,
            "discover": self.discover,
            "context": self.context,
            "feedback": self.feedback,
            "mmr": self.mmr,
        }
        made = makers[kind](name)
        if kind == "recommend":
            kind = f"recommend by {getattr(made.recommend.strategy, 'value', 'average_vector')}"
        self.draw(kind, {"m": "of a multivector", "s": "of a sparse vector"}.get(name, "of a dense vector"))
        return made

    def any(self):
        """Arguments of a query, how it is compared, and whether it can be of a batch or grouped."""
        rng = self.rng
        name = rng.choice(self.names)
        kind = rng.choice(["leaf", "leaf", "leaf", "stages", "fusion", "fusion", "formula", "order", "order of found"])
        more = {"query_filter": self.filter(), **self.page()}
        if kind == "leaf":
            return more | {"query": self.by_vector(name), "using": name}, same_hits
        if kind == "order":
            self.draw("order_by")
            order = models.OrderBy(key="rank", direction=rng.choice([None, *models.Direction]))
            return more | {"query": models.OrderByQuery(order_by=order)}, same_order
        sources = [self.prefetch() for _ in range(rng.randint(1, 3))]
        if kind == "order of found":
            self.draw("order_by over prefetches")
            return more | {"prefetch": sources, "query": models.OrderByQuery(order_by=models.OrderBy(key="rank"))}, same_order
        if kind == "fusion":
            query = self.fusion(len(sources))
            by = query.fusion.value if isinstance(query, models.FusionQuery) else "rrf with k or weights"
            self.draw("fusion", by)
            return more | {"prefetch": sources, "query": query}, same_hits
        if kind == "formula":
            self.draw("formula")
            defaults = {"pop": 2, "obj.deep.x": [1], "n": 0.5, "when": "2024-02-02"}
            return more | {"prefetch": sources, "query": models.FormulaQuery(formula=expression(self), defaults=defaults)}, same_hits
        self.in_prefetch += 1
        query = self.by_vector(name)
        self.in_prefetch -= 1
        return more | {"prefetch": sources, "query": query, "using": name}, same_hits


@pytest.fixture(params=DISTANCES)
def wide(pair, request):
    return Wide(pair, seed=f"any {request.param}", distance=request.param)


def test_any_query(wide):
    pair, rng = wide.pair, wide.rng
    other = pair.create(models.VectorParams(size=2, distance=models.Distance.DOT), name=f"{pair.name}-other")
    points = [models.PointStruct(id=n, vector=[n, 1], payload={"n": n}) for n in range(4)]
    pair.both(lambda c: c.upsert(other, points, wait=True))
    for _ in range(CASES):
        arguments, same = wide.any()
        endpoint = rng.choice(["query", "query", "batch", "groups", "groups"]) if same is same_hits else "query"
        # As above: groups stand in the order of their best points.
        tied = isinstance(arguments["query"], models.ContextQuery | models.DiscoverQuery) or arguments.get("using") == "s"
        # How many candidates MMR has in a search by groups is up to the server where the query doesn't say.
        tied |= getattr(arguments["query"], "mmr", None) is not None
        if endpoint == "groups" and ("prefetch" in arguments or tied):
            endpoint = "batch"
        wide.draw("endpoint", endpoint)
        if endpoint == "query":
            pair.agree("any queries", lambda c: c.query_points(pair.name, **arguments), same, str(arguments))
        elif endpoint == "batch":
            asked = dict(arguments)
            filter_, vectors = asked.pop("query_filter"), asked.pop("with_vectors")
            request = models.QueryRequest(filter=filter_, with_vector=vectors, **asked)
            pair.agree("any queries", lambda c: c.query_batch_points(pair.name, [request, request]), same_batches, str(request))
        else:
            asked = {k: v for k, v in arguments.items() if k != "offset"}
            asked |= {"group_by": rng.choice(["group", "city", "rank"]), "group_size": rng.choice([1, 3]), "limit": rng.choice([2, 6])}
            asked |= {"with_lookup": rng.choice([None, other])}
            pair.agree("any queries", lambda c: c.query_points_groups(pair.name, **asked), same_groups, str(asked))
    drawn = "; ".join(f"{what}: {count}" for what, count in sorted(wide.drawn.items()))
    compare.NOTES.append(f"any queries{pair.over}, {wide.distance.value}: {drawn}")
    kinds = ["nearest", "discover", "context", "mmr", *(f"recommend by {s.value}" for s in models.RecommendStrategy)]
    wanted = {f"{kind} of a {of}" for kind in kinds for of in ["dense vector", "multivector", "sparse vector"]}
    wanted |= {"feedback of a dense vector", "fusion rrf", "fusion dbsf", "fusion rrf with k or weights", "formula", "order_by", "order_by over prefetches"}
    wanted |= {f"endpoint {name}" for name in ["query", "batch", "groups"]}
    assert wanted <= set(wide.drawn), f"never drawn: {wanted - set(wide.drawn)}"


def test_a_random_sample_is_not_skipped_in(pair):
    """Chance has no order."""
    pair.create(models.VectorParams(size=1, distance=models.Distance.DOT))
    pair.both(lambda c: c.upsert(pair.name, [models.PointStruct(id=n, vector=[float(n)]) for n in range(20)]))
    sample = models.SampleQuery(sample=models.Sample.RANDOM)
    assert len(pair.remote.query_points(pair.name, query=sample, limit=2, offset=3).points) == 2


def test_groups_of_a_fusion_have_its_scores(pair):
    """Whether they are filled or not: a filter would change ranks."""
    dot = models.VectorParams(size=1, distance=models.Distance.DOT)
    pair.create({"a": dot, "b": dot})
    values = {1: (10, 9, "g"), 2: (9, 10, "g"), 3: (8, 8, "h"), 4: (1, 1, "h")}
    values.update({n: (7 - n / 10, 7 - n / 10, "g") for n in range(5, 12)})
    pair.both(lambda c: c.upsert(pair.name, [models.PointStruct(id=n, vector={"a": [a], "b": [b]}, payload={"k": g}) for n, (a, b, g) in values.items()]))
    for fusion in (models.Fusion.RRF, models.Fusion.DBSF):
        asked = {
            "prefetch": [models.Prefetch(query=[1.0], using=using, limit=100) for using in "ab"],
            "query": models.FusionQuery(fusion=fusion),
        }
        scores = {p.id: p.score for p in pair.remote.query_points(pair.name, limit=20, **asked).points}
        for size in (1, 2, 3):
            groups = pair.remote.query_points_groups(pair.name, group_by="k", limit=2, group_size=size, **asked).groups
            best = {name: sorted((scores[n] for n, v in values.items() if v[2] == name), reverse=True)[:size] for name in "gh"}
            assert {g.id: [hit.score for hit in g.hits] for g in groups} == {n: pytest.approx(s) for n, s in best.items()}, (fusion, size)
            tops = [g.hits[0].score for g in groups]
            assert tops == sorted(tops, reverse=True)


def test_groups_named_by_the_largest_integers_are_filled(server):
    """Beyond what an `int64` holds, which is what messages have: by REST alone."""
    if conftest.SELF:
        pytest.skip("needs a server")
    http, base = server.http(), "/collections/large-names"
    http.call("PUT", base, {"vectors": {"size": 1, "distance": "Dot"}})
    names = [2**63, "x", "y", "y", "x", 2**63, 2**63 + 4096]
    points = [{"id": n, "vector": [10.0 - n], "payload": {"k": name}} for n, name in enumerate(names)]
    http.result("PUT", f"{base}/points?wait=true", {"points": points})
    asked = {"query": [1.0], "group_by": "k", "limit": 2, "group_size": 2}
    groups = http.result("POST", f"{base}/points/query/groups", asked)["groups"]
    assert [(g["id"], [hit["id"] for hit in g["hits"]]) for g in groups] == [(2**63, [0, 5]), ("x", [1, 4])]
    http.call("DELETE", base)
