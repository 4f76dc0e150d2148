"""The query API, every kind of query over random data, against the local mode; and requests that mean harm."""

import itertools
import json

import numpy as np
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

import conftest
import data
from compare import CASES, same_batches, same_hits, same_record

DISTANCES = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID, models.Distance.MANHATTAN]
DIMS = {"a": 8, "b": 5}
COUNT = 350


class World:
    """Points in both, with what the queries are made of."""

    names = list(DIMS)

    def __init__(self, pair, seed, distance, count=COUNT):
        self.distance = distance
        self.pair, self.rng = pair, data.Random(seed)
        # Ids in prefetches are left out of everything by the server, of their own level by the local mode: see
        # test_named_points_are_no_hits.
        self.in_prefetch = 0
        self.create()
        rng = self.rng
        ranks = list(range(count))
        rng.shuffle(ranks)
        self.points = [
            models.PointStruct(id=data.point_id(rng, n), vector=self.vectors(), payload=self.payload(rank))
            for n, rank in enumerate(ranks)
        ]
        self.ids = [p.id for p in self.points]
        self.with_vector = {name: [p.id for p in self.points if name in p.vector] for name in self.names}
        for start in range(0, count, 100):
            pair.both(lambda c: c.upsert(pair.name, self.points[start : start + 100], wait=True))
        for key, kind in [("rank", "integer"), ("num", "float"), ("when", "datetime"), ("city", "keyword")]:
            pair.both(lambda c: c.create_payload_index(pair.name, key, kind))

    def create(self):
        self.pair.create({name: models.VectorParams(size=dim, distance=self.distance) for name, dim in DIMS.items()})

    def make(self, name):
        """A vector that `name` may have."""
        return self.rng.vector(DIMS[name])

    def vectors(self):
        made = {name: self.make(name) for name in self.names}
        if self.rng.maybe(0.1):
            made.pop(self.rng.choice(self.names))
        return made

    def payload(self, rank):
        rng = self.rng
        made = data.payload(rng)
        made |= {"rank": rank, "num": round(rng.uniform(-3, 3), 3), "where": rng.geo(), "one": [rng.randint(1, 9)]}
        made |= {"made": rng.moment().isoformat(), "group": rng.choice(["x", "y", "z", 1, 2, -3, ["x", 1], [], None])}
        if rng.maybe(0.6):
            made["pop"] = rng.randint(0, 5)
        if made.get("when") is None:
            # The local mode has no indexes, and takes null for a value of a formula: see test_null_in_a_formula.
            made.pop("when", None)
        return made

    def filter(self, p=0.3):
        return data.random_filter(self.rng, self.ids) if self.rng.maybe(p) else None

    def input(self, name):
        rng = self.rng
        by_id = rng.maybe(0.5) and not self.in_prefetch
        return rng.choice(self.with_vector[name]) if by_id else self.make(name)

    def inputs(self, name, least, most):
        return [self.input(name) for _ in range(self.rng.randint(least, most))]

    def pair_of(self, name):
        return models.ContextPair(positive=self.input(name), negative=self.input(name))

    def recommend(self, name):
        rng = self.rng
        strategy = rng.choice([None, *models.RecommendStrategy])
        average = strategy in (None, models.RecommendStrategy.AVERAGE_VECTOR)
        positive = self.inputs(name, 1 if average else 0, 3)
        negative = self.inputs(name, 0 if positive else 1, 2)
        found = models.RecommendInput(positive=positive, negative=negative, strategy=strategy)
        return models.RecommendQuery(recommend=found)

    def discover(self, name):
        context = [self.pair_of(name) for _ in range(self.rng.randint(1, 3))]
        return models.DiscoverQuery(discover=models.DiscoverInput(target=self.input(name), context=context))

    def context(self, name):
        return models.ContextQuery(context=[self.pair_of(name) for _ in range(self.rng.randint(1, 3))])

    def feedback(self, name):
        rng = self.rng
        items = [models.FeedbackItem(example=self.input(name), score=round(rng.uniform(-1, 1), 2)) for _ in range(rng.randint(1, 3))]
        naive = models.NaiveFeedbackStrategyParams(a=rng.choice([1.0, 0.5]), b=rng.choice([1.0, 0.5]), c=rng.choice([0.25, 1.0]))
        strategy = models.NaiveFeedbackStrategy(naive=naive)
        found = models.RelevanceFeedbackInput(target=self.input(name), feedback=items, strategy=strategy)
        return models.RelevanceFeedbackQuery(relevance_feedback=found)

    def mmr(self, name):
        rng = self.rng
        mmr = models.Mmr(diversity=rng.choice([None, 0.0, 0.3, 0.9, 1.0]), candidates_limit=rng.choice([None, 15, 60]))
        return models.NearestQuery(nearest=self.input(name), mmr=mmr)

    def by_vector(self, name):
        makers = [lambda name: self.input(name), lambda name: models.NearestQuery(nearest=self.input(name))]
        return self.rng.choice(makers + [self.recommend, self.discover, self.feedback, self.mmr])(name)

    def fusion(self, sources):
        rng = self.rng
        weights = [rng.choice([0.5, 1.0, 2.0]) for _ in range(sources)]
        return rng.choice(
            [
                models.FusionQuery(fusion=models.Fusion.RRF),
                models.FusionQuery(fusion=models.Fusion.DBSF),
                models.RrfQuery(rrf=models.Rrf(k=rng.choice([None, 1, 7, 60]))),
                models.RrfQuery(rrf=models.Rrf(k=rng.choice([None, 3]), weights=weights)),
            ]
        )

    def prefetch(self, depth=0):
        self.in_prefetch += 1
        found = self.any_prefetch(depth)
        self.in_prefetch -= 1
        return found

    def any_prefetch(self, depth):
        rng = self.rng
        limit = rng.choice([None, 5, 20, 50])
        more = {"filter": self.filter(), "limit": limit}
        if depth < 2 and rng.maybe(0.3):
            inner = [self.prefetch(depth + 1) for _ in range(rng.randint(1, 2))]
            if rng.maybe(0.5):
                return models.Prefetch(prefetch=inner, query=self.fusion(len(inner)), **more)
            name = rng.choice(self.names)
            return models.Prefetch(prefetch=inner, query=self.by_vector(name), using=name, **more)
        name = rng.choice(self.names)
        return models.Prefetch(query=self.by_vector(name), using=name, **more)

    def page(self):
        rng = self.rng
        shown = rng.choice([True, False, ["rank", "city"], models.PayloadSelectorExclude(exclude=["obj"])])
        vectors = rng.choice([False, True, ["a"]])
        return {"limit": rng.choice([1, 10, 30]), "offset": rng.choice([0, 0, 4]), "with_payload": shown, "with_vectors": vectors}

    def agree(self, kind, compare=same_hits, **arguments):
        return self.pair.agree(kind, lambda c: c.query_points(self.pair.name, **arguments), compare, str(arguments))


@pytest.fixture(params=DISTANCES)
def world(pair, request):
    return World(pair, seed=3, distance=request.param)


def same_order(ours, theirs):
    """The order is told by ids, or by values that are each there once."""
    ours, theirs = ours.points, theirs.points
    a, b = [(h.id, h.order_value, h.score) for h in ours], [(h.id, h.order_value, h.score) for h in theirs]
    assert a == b, f"ours {a}\noracle {b}"
    for hit, other in zip(ours, theirs):
        same_record(hit, other)


def test_recommend(world):
    for _ in range(60):
        name = world.rng.choice(list(DIMS))
        world.agree("recommendations", query=world.recommend(name), using=name, query_filter=world.filter(), **world.page())


def test_discover_and_context(world):
    for n in range(60):
        name = world.rng.choice(list(DIMS))
        query = (world.discover if n % 2 else world.context)(name)
        world.agree("discoveries", query=query, using=name, query_filter=world.filter(), **world.page())


def test_feedback_and_mmr(world):
    for n in range(50):
        name = world.rng.choice(list(DIMS))
        # Under Manhattan many candidates reach the bound of the triangle inequality, all with the same value but for
        # rounding: which of them mmr takes is up to it.
        by_mmr = n % 2 == 0 and world.distance != models.Distance.MANHATTAN
        query = (world.mmr if by_mmr else world.feedback)(name)
        world.agree("feedback and mmr", query=query, using=name, query_filter=world.filter(), **world.page())


def test_fusion(world):
    for _ in range(60):
        prefetch = [world.prefetch() for _ in range(world.rng.randint(1, 3))]
        world.agree("fusions", prefetch=prefetch, query=world.fusion(len(prefetch)), query_filter=world.filter(), **world.page())


def test_stages(world):
    """A query by vectors over what prefetches found. The local mode leaves examples of feedback out of the last stage only."""
    world.in_prefetch = 1
    for _ in range(40):
        prefetch = [world.prefetch() for _ in range(world.rng.randint(1, 2))]
        name = world.rng.choice(list(DIMS))
        world.agree("stages", prefetch=prefetch, query=world.by_vector(name), using=name, query_filter=world.filter(), **world.page())


def test_orders(world):
    rng = world.rng
    for _ in range(20):
        order = models.OrderBy(key="rank", direction=rng.choice([None, *models.Direction]), start_from=rng.choice([None, 40, 200]))
        query = models.OrderByQuery(order_by=order)
        world.agree("orders", same_order, query=query, query_filter=world.filter(), **world.page())
        world.agree("orders", same_order, query_filter=world.filter(), **world.page())
        name = rng.choice(list(DIMS))
        source = models.Prefetch(query=rng.vector(DIMS[name]), using=name, limit=30)
        world.agree("orders", same_order, prefetch=source, query=query, **world.page())


def test_samples(world):
    rng, random = world.rng, models.SampleQuery(sample=models.Sample.RANDOM)
    orders = set()
    for n in range(12):
        query_filter = world.filter(0.7)
        matching = {p.id for p in world.pair.oracle.scroll(world.pair.name, query_filter, limit=COUNT)[0]}
        name = rng.choice(list(DIMS))
        prefetch = None
        if n % 2:
            prefetch = models.Prefetch(query=rng.vector(DIMS[name]), using=name, limit=40)
            points = world.pair.oracle.query_points(world.pair.name, rng.vector(DIMS[name]), using=name, limit=COUNT).points
            points = world.pair.oracle.query_points(
                world.pair.name, prefetch.query, using=name, limit=40, query_filter=query_filter
            ).points
            matching = {p.id for p in points}
        limit = rng.choice([1, 20, COUNT])
        ours = world.pair.remote.query_points(world.pair.name, random, prefetch=prefetch, query_filter=query_filter, limit=limit)
        ids = [p.id for p in ours.points]
        CASES["samples"] += 1
        assert len(set(ids)) == len(ids) == min(limit, len(matching))
        assert set(ids) <= matching
    for _ in range(3):
        orders.add(tuple(p.id for p in world.pair.remote.query_points(world.pair.name, random, limit=50).points))
    assert len(orders) == 3 or world.pair.remote is world.pair.oracle


def number(rng):
    return rng.choice([0.5, 2.0, -1.0, 3, 0.0])


def expression(world, depth=0):
    """Any expression; most give a number for every point."""
    rng = world.rng

    def inner():
        return expression(world, depth + 1)

    def decay():
        at = rng.choice(
            [
                {"x": "num", "target": 0.5, "scale": 1.0},
                {"x": "rank"},
                {"x": models.GeoDistance(geo_distance=models.GeoDistanceParams(origin=rng.geo(), to="where")), "scale": 3e6},
                {
                    "x": models.DatetimeKeyExpression(datetime_key="made"),
                    "target": models.DatetimeExpression(datetime="2024-05-01T00:00:00Z"),
                    "scale": 86400.0 * 64,
                },
            ]
        )
        params = models.DecayParamsExpression(**at, midpoint=rng.choice([None, 0.25, 0.75]))
        return rng.choice(
            [
                lambda: models.LinDecayExpression(lin_decay=params),
                lambda: models.ExpDecayExpression(exp_decay=params),
                lambda: models.GaussDecayExpression(gauss_decay=params),
            ]
        )()

    leaves = [
        lambda: number(rng),
        lambda: rng.choice(["$score", "$score[0]", "$score[1]", "$score[7]"]),
        lambda: rng.choice(["rank", "num", "pop", "one", "one[0]", "obj.deep.x", "n"]),
        lambda: data.condition(rng, world.ids, depth=2),
        lambda: data.random_filter(rng, world.ids, depth=2),
        decay,
        lambda: models.DatetimeKeyExpression(datetime_key=rng.choice(["made", "when"])),
    ]
    inners = [
        lambda: models.SumExpression(sum=[inner() for _ in range(rng.randint(1, 3))]),
        lambda: models.MultExpression(mult=[inner() for _ in range(rng.randint(1, 3))]),
        lambda: models.MaxExpression(max=[inner() for _ in range(rng.randint(1, 3))]),
        lambda: models.MinExpression(min=[inner() for _ in range(rng.randint(1, 3))]),
        lambda: models.NegExpression(neg=inner()),
        lambda: models.AbsExpression(abs=inner()),
        lambda: models.SqrtExpression(sqrt=models.AbsExpression(abs=inner())),
        lambda: models.DivExpression(div=models.DivParams(left=inner(), right=inner(), by_zero_default=rng.choice([1.0, 1.0, None]))),
        lambda: models.PowExpression(pow=models.PowParams(base=models.AbsExpression(abs=inner()), exponent=rng.choice([2.0, 0.5, -1.0]))),
        lambda: models.ExpExpression(exp=rng.choice(["num", "$score", inner()])),
        lambda: models.LnExpression(ln=models.SumExpression(sum=[models.AbsExpression(abs=inner()), 1.0])),
        lambda: models.Log10Expression(log10=models.SumExpression(sum=[models.AbsExpression(abs=inner()), 1.0])),
        lambda: models.AcoshExpression(acosh=models.SumExpression(sum=[models.AbsExpression(abs=inner()), 1.0])),
    ]
    return rng.choice(leaves if depth >= 3 or rng.maybe(0.4) else inners)()


def test_formulas(world):
    rng = world.rng
    done = 0
    for _ in range(150):
        prefetch = [world.prefetch(depth=2) for _ in range(rng.randint(1, 2))]
        defaults = {"pop": 2, "obj.deep.x": [1], "n": 0.5, "when": "2024-02-02", "$score[1]": 0.25}
        defaults = {key: value for key, value in defaults.items() if rng.maybe(0.8)}
        query = models.FormulaQuery(formula=expression(world), defaults=defaults)
        threshold = rng.choice([None, None, 0.1])
        found = world.agree("formulas", prefetch=prefetch, query=query, score_threshold=threshold, **world.page())
        done += found is not None
    assert done > 60, f"only {done} formulas had a score for every point"


def same_groups(ours, theirs):
    ours, theirs = ours.groups, theirs.groups
    a, b = [g.id for g in ours], [g.id for g in theirs]
    assert a == b, f"groups: ours {a}, oracle {b}"
    for x, y in zip(ours, theirs):
        same_hits(x.hits, y.hits)
        assert (x.lookup is None) == (y.lookup is None), f"lookup of {x.id}: ours {x.lookup}, oracle {y.lookup}"
        if y.lookup:
            same_record(x.lookup, y.lookup)


def test_groups(world):
    rng, name = world.rng, world.pair.name
    other = world.pair.create(models.VectorParams(size=2, distance=models.Distance.DOT), name=f"{name}-other")
    lookups = [models.PointStruct(id=n, vector=[n, 1], payload={"n": n, "m": "x"}) for n in range(4)]
    world.pair.both(lambda c: c.upsert(other, lookups, wait=True))
    for _ in range(30):
        vector = rng.choice(list(DIMS))
        arguments = {
            "query": rng.choice([world.input, world.recommend])(vector),
            "using": vector,
            "group_by": rng.choice(["group", "group", "city", "rank", "missing", "num", "obj.name", "tags", "nest[].kind"]),
            "group_size": rng.choice([1, 3, 8]),
            "limit": rng.choice([1, 4, 10]),
            "query_filter": world.filter(),
            "with_payload": rng.choice([True, ["rank"], False]),
            "with_lookup": rng.choice(
                [None, other, models.WithLookup(collection=other, with_payload=["m"], with_vectors=True)]
            ),
        }
        if rng.maybe(0.3):
            arguments |= {"prefetch": models.Prefetch(query=rng.vector(8), using="a", limit=COUNT)}
        world.pair.agree("groups", lambda c: c.query_points_groups(name, **arguments), same_groups, str(arguments))


def test_score_thresholds(world):
    rng = world.rng
    for _ in range(40):
        name = rng.choice(list(DIMS))
        query = rng.choice([world.recommend, world.discover, world.feedback, world.input])(name)
        prefetch = [world.prefetch(depth=2)] if rng.maybe(0.3) else None
        arguments = {"query": query, "using": name, "prefetch": prefetch}
        hits = world.pair.oracle.query_points(world.pair.name, limit=60, **arguments).points
        gaps = [(a.score + b.score) / 2 for a, b in itertools.pairwise(hits) if abs(a.score - b.score) > 1e-3]
        for threshold in rng.sample(gaps, min(2, len(gaps))):
            world.agree("thresholds", limit=60, score_threshold=threshold, **arguments)


def test_lookup_from(world):
    rng, name = world.rng, world.pair.name
    other = world.pair.create({"a": models.VectorParams(size=8, distance=models.Distance.DOT)}, name=f"{name}-other")
    points = [models.PointStruct(id=n, vector={"a": rng.vector(8)}) for n in range(0, 60, 3)]
    world.pair.both(lambda c: c.upsert(other, points, wait=True))
    for _ in range(25):
        ids = rng.sample(range(0, 66, 3), 3)
        recommend = models.RecommendInput(positive=ids[:2], negative=[ids[2], rng.vector(8)])
        query = rng.choice([ids[0], models.RecommendQuery(recommend=recommend)])
        vector = rng.choice([None, "a", "a", "missing"])
        at = models.LookupLocation(collection=other, vector=vector)
        world.agree("lookups", query=query, using="a", lookup_from=at, **world.page())
        prefetch = models.Prefetch(query=query, using="a", lookup_from=at, limit=15)
        world.agree("lookups", prefetch=prefetch, query=models.FusionQuery(fusion="rrf"), **world.page())


def test_batches(world):
    rng, name = world.rng, world.pair.name
    for _ in range(6):
        requests = []
        for _ in range(8):
            vector = rng.choice(list(DIMS))
            page = world.page()
            shown = {"limit": page["limit"], "offset": page["offset"], "with_payload": page["with_payload"]}
            if rng.maybe(0.5):
                requests.append(models.QueryRequest(query=world.by_vector(vector), using=vector, filter=world.filter(), **shown))
            else:
                prefetch = [world.prefetch() for _ in range(2)]
                requests.append(models.QueryRequest(prefetch=prefetch, query=world.fusion(2), **shown))
        world.pair.agree("batches", lambda c: c.query_batch_points(name, requests), same_batches, str(requests))


def test_text_conditions(world):
    """Full-text and other matches of strings, without an index."""
    rng, name = world.rng, world.pair.name
    words = ["red", "Green", "blue fox", "the quick", "quick the", "fox", "r", "re", "ee", "a b", "b a", "x-1", ""]
    texts = ["The quick red fox", "green, blue", "red red", "a b c", "Fox blue", "x-1 quick", ["red fox", "blue"], 3, None]
    for id in world.ids[::2]:
        value = rng.choice(texts)
        world.pair.both(lambda c: c.set_payload(name, {"text": value}, points=[id], wait=True))
    makers = [
        lambda w: models.MatchPrefix(prefix=w),
        lambda w: models.MatchSubstring(substring=w),
        lambda w: models.MatchText(text=w),
        lambda w: models.MatchTextAny(text_any=w),
        lambda w: models.MatchPhrase(phrase=w),
    ]
    for word, make in itertools.product(words[:-1], makers[:2]):
        condition = models.FieldCondition(key="text", match=make(word))
        world.agree("texts", same_order, query_filter=models.Filter(must=[condition]), limit=COUNT)
    for total in [1, 3, 7]:
        for index in range(total):
            condition = models.SliceCondition(slice=models.Slice(total=total, index=index))
            world.agree("slices", same_order, query_filter=models.Filter(must=[condition]), limit=COUNT)
    for vector in ["a", "b", "c"]:
        condition = models.HasVectorCondition(has_vector=vector)
        world.agree("has_vector", same_order, query_filter=models.Filter(must=[condition]), limit=COUNT)


def test_older_routes(world, http):
    """Each as the query that it is."""
    rng, name = world.rng, world.pair.name
    oracle = world.pair.oracle

    def ask(path, body):
        CASES["older routes"] += 1
        return http.result("POST", f"/collections/{name}/points/{path}", body)

    def scored(hits):
        return [models.ScoredPoint(**hit) for hit in hits]

    for _ in range(10):
        positive, negative = rng.sample(world.with_vector["a"], 2), rng.sample(world.with_vector["a"], 1)
        for strategy in models.RecommendStrategy:
            body = {"positive": positive, "negative": negative, "strategy": strategy.value, "using": "a", "limit": 7, "with_payload": True}
            query = models.RecommendQuery(recommend=models.RecommendInput(positive=positive, negative=negative, strategy=strategy))
            theirs = oracle.query_points(name, query, using="a", limit=7).points
            same_hits(scored(ask("recommend", body)), theirs)
            batch = ask("recommend/batch", {"searches": [body, body]})
            assert len(batch) == 2
            same_hits(scored(batch[1]), theirs)
            grouped = ask("recommend/groups", body | {"group_by": "group", "group_size": 2})
            expected = oracle.query_points_groups(name, "group", query=query, using="a", limit=7, group_size=2)
            assert [g["id"] for g in grouped["groups"]] == [g.id for g in expected.groups]
        vector = rng.vector(8)
        body = {"vector": {"name": "a", "vector": vector}, "limit": 5, "with_payload": True}
        theirs = oracle.query_points(name, vector, using="a", limit=5).points
        same_hits(scored(ask("search", body)), theirs)
        same_hits(scored(ask("search/batch", {"searches": [body]})[0]), theirs)
        grouped = ask("search/groups", body | {"group_by": "group", "group_size": 2})
        expected = oracle.query_points_groups(name, "group", query=vector, using="a", limit=5, group_size=2)
        assert [g["id"] for g in grouped["groups"]] == [g.id for g in expected.groups]
        context = [{"positive": positive[0], "negative": negative[0]}]
        body = {"context": context, "using": "a", "limit": 5, "with_payload": True}
        query = models.ContextQuery(context=[models.ContextPair(**context[0])])
        same_hits(scored(ask("discover", body)), oracle.query_points(name, query, using="a", limit=5).points)
        query = models.DiscoverQuery(discover=models.DiscoverInput(target=vector, context=[models.ContextPair(**context[0])]))
        theirs = oracle.query_points(name, query, using="a", limit=5).points
        same_hits(scored(ask("discover", body | {"target": vector})), theirs)
        same_hits(scored(ask("discover/batch", {"searches": [body | {"target": vector}]})[0]), theirs)


def test_named_points_are_no_hits(world, http):
    """Ids that a query names at any level are left out at every level."""
    one, two, three = world.with_vector["a"][:3]
    leaves = [{"query": one, "using": "a", "limit": 100}, {"query": two, "using": "a", "limit": 100}]
    inner = {"prefetch": leaves, "query": {"fusion": "rrf"}, "limit": 100}
    body = {"prefetch": [inner, leaves[0]], "query": {"recommend": {"positive": [three]}}, "using": "a", "limit": 1000}
    points = http.result("POST", f"/collections/{world.pair.name}/points/query", body)["points"]
    assert len(points) >= 100 and not {one, two, three} & {p["id"] for p in points}


def status_of(http, path, body):
    status, _, answer = http.raw("POST", path, json.dumps(body))
    return status, answer.decode()


def nested(depth, leaf, key):
    for _ in range(depth):
        leaf = {key: leaf} if key == "neg" else {"prefetch": leaf, "query": {"fusion": "rrf"}}
    return leaf


def test_requests_that_mean_harm(world, http):
    name = world.pair.name
    leaf = {"query": [0.5] * 8, "using": "a"}
    one = {"prefetch": leaf}
    vectors = [[0.5] * 8] * 2000

    def formula(expression, **more):
        return one | {"query": {"formula": expression, **more}}

    def query(**kind):
        return {"query": kind, "using": "a"}

    pair = {"positive": [0.5] * 8, "negative": [0.1] * 8}
    refused = [
        (nested(66, leaf, "prefetch"), 400),
        (nested(140, leaf, "prefetch"), 400),
        ({"prefetch": [leaf] * 3000, "query": {"fusion": "rrf"}}, 400),
        ({"query": {"fusion": "rrf"}}, 400),
        ({"query": {"fusion": "other"}, **one}, 400),
        ({"query": {"formula": 1.0}}, 400),
        (one, 400),
        ({"score_threshold": 1.0}, 400),
        ({"query": {"order_by": "rank"}, "score_threshold": 1.0}, 400),
        ({"query": {"order_by": "missing"}}, 400),
        ({"query": {"fusion": "rrf"}, "using": "a", **one}, 400),
        ({"query": {"rrf": {"k": 0}}, **one}, 422),
        ({"query": {"rrf": {"weights": [1.0, 2.0]}}, **one}, 400),
        (formula(nested(70, 1.0, "neg")), 400),
        (formula(nested(120, 1.0, "neg")), 400),
        (formula({"sum": [1.0] * 10_000}), 400),
        (formula({"div": {"left": 1.0, "right": 0.0}}), 400),
        (formula({"ln": -1.0}), 400),
        (formula("missing"), 400),
        (formula("$score[x]"), 400),
        (formula({"max": []}), 400),
        (formula({"exp_decay": {"x": "num", "midpoint": 1.0}}), 400),
        (formula({"gauss_decay": {"x": "num", "scale": 0.0}}), 400),
        (formula({"datetime_key": "num"}), 400),
        (formula({"geo_distance": {"origin": {"lon": 0.0, "lat": 0.0}, "to": "num"}}), 400),
        (query(recommend={"positive": []}), 422),
        (query(recommend={"positive": [], "strategy": "best_score"}), 422),
        (query(recommend={"positive": vectors}), 400),
        (query(recommend={"positive": [[0.5] * 3]}), 400),
        (query(recommend={"positive": [10**9]}), 404),
        (query(recommend={"positive": [[0.5] * 8], "strategy": "other"}), 400),
        (query(discover={"target": [0.5] * 8}), 400),
        (query(discover={"target": [0.5] * 8, "context": [{"positive": 1}]}), 400),
        (query(context=[]), 400),
        (query(context=[pair] * 2000), 400),
        (query(nearest=[0.5] * 8, mmr={"diversity": 1.5}), 422),
        (query(nearest=[0.5] * 8, mmr={"candidates_limit": 10**6}), 422),
        (query(nearest=[0.5] * 8) | {"lookup_from": {"collection": "missing"}}, 404),
        ({"query": [0.5] * 8, "using": "missing"}, 400),
        ({"query": {"sample": "other"}}, 400),
        ({"prefetch": leaf | {"limit": 0}, "query": {"fusion": "rrf"}}, 422),
    ]
    for body, status in refused:
        found, text = status_of(http, f"/collections/{name}/points/query", body)
        assert found == status, f"{str(body)[:300]}: {found} {text[:300]}"
        CASES["refusals"] += 1
    grouped = {"query": [0.5] * 8, "using": "a", "group_by": "group"}
    for more, status in [
        ({"group_size": 0}, 422), ({"group_size": 10**9}, 400), ({"limit": 0}, 422), ({"group_by": "["}, 400),
        # More groups than points are as many as there are points.
        ({"limit": 10**6}, 200), ({"limit": 10**9}, 200),
    ]:
        found, text = status_of(http, f"/collections/{name}/points/query/groups", grouped | more)
        assert found == status, f"{more}: {found} {text[:300]}"
        CASES["refusals"] += 1
    most = 2**63
    large = {"prefetch": [leaf | {"limit": most}] * 4, "query": {"fusion": "dbsf"}, "limit": most, "offset": 3}
    answered = http.result("POST", f"/collections/{name}/points/query", large)
    assert len(answered["points"]) == len(world.with_vector["a"]) - 3


def test_many_points_under_an_index(pair):
    """Queries of several vectors where the index has to find the points."""
    rng, count, dim = np.random.default_rng(5), 24_000, 96
    pair.create(
        models.VectorParams(size=dim, distance=models.Distance.COSINE),
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=1000),
    )
    centers = rng.normal(size=(60, dim))
    vectors = (centers[rng.integers(0, 60, count)] + rng.normal(size=(count, dim)) * 0.7).astype(np.float32)
    pair.both(lambda c: c.upload_collection(pair.name, vectors, ids=range(count), batch_size=500, wait=True))
    found, wanted = 0, 0
    for n in range(30):
        near = [int(i) for i in rng.integers(0, count, 4)]
        strategy = list(models.RecommendStrategy)[n % 3]
        query = models.RecommendQuery(
            recommend=models.RecommendInput(positive=near[: 1 + n % 3], negative=near[3:] if n % 2 else [], strategy=strategy)
        )
        if n % 5 == 4:
            pairs = [models.ContextPair(positive=near[1], negative=near[2])]
            query = models.DiscoverQuery(discover=models.DiscoverInput(target=near[0], context=pairs))
        ours, theirs = pair.both(lambda c: c.query_points(pair.name, query, limit=20).points)
        theirs = {p.id for p in theirs}
        found += sum(p.id in theirs for p in ours)
        wanted += len(theirs)
        CASES["indexed"] += 1
    assert found >= 0.95 * wanted, f"recall {found / wanted}"


@pytest.mark.skipif(conftest.SELF, reason="the local mode has no indexes")
def test_null_in_a_formula(server):
    """Without an index null is a value that is no number; an index has none for it, so the default stands in."""
    client, name = conftest.client_of(server), "null-in-a-formula"
    client.delete_collection(name)
    client.create_collection(name, models.VectorParams(size=2, distance=models.Distance.DOT))
    client.upsert(name, [models.PointStruct(id=1, vector=[1.0, 0.0], payload={"n": None})], wait=True)
    query = models.FormulaQuery(formula=models.SumExpression(sum=["$score", "n"]), defaults={"n": 4.0})
    ask = lambda: client.query_points(name, prefetch=models.Prefetch(query=[2.0, 0.0]), query=query).points  # noqa: E731
    with pytest.raises(UnexpectedResponse, match="Value is not a number"):
        ask()
    client.create_payload_index(name, "n", "float", wait=True)
    assert [point.score for point in ask()] == [6.0]
