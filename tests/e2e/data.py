"""Random points, payloads and filters; the seed decides everything."""

import random
import uuid
from datetime import datetime, timedelta, timezone

import numpy as np
from qdrant_client import models

CITIES = ["Berlin", "London", "Moscow", "Paris", "São Paulo", "北京", "", "berlin"]
TAGS = ["red", "green", "blue", "a b", "x-1", "emoji 🦀"]
EPOCH = datetime(2024, 1, 1, tzinfo=timezone.utc)

# Fields with an index kind each; `nest[].n` and the like are paths into arrays.
INDEXES = {
    "city": models.PayloadSchemaType.KEYWORD,
    "tags": models.PayloadSchemaType.KEYWORD,
    "n": models.PayloadSchemaType.INTEGER,
    "price": models.PayloadSchemaType.FLOAT,
    "flag": models.PayloadSchemaType.BOOL,
    "when": models.PayloadSchemaType.DATETIME,
    "uid": models.PayloadSchemaType.UUID,
    "loc": models.PayloadSchemaType.GEO,
    "nest[].n": models.PayloadSchemaType.INTEGER,
    "nest[].kind": models.PayloadSchemaType.KEYWORD,
    "obj.deep.x": models.PayloadSchemaType.INTEGER,
}


class Random(random.Random):
    def maybe(self, p):
        return self.random() < p

    def vector(self, dim, low=-1.0, high=1.0):
        return [round(self.uniform(low, high), 4) for _ in range(dim)]

    def uuid(self):
        return str(uuid.UUID(int=self.getrandbits(128)))

    def moment(self):
        return EPOCH + timedelta(seconds=self.randint(0, 400 * 86_400), milliseconds=self.choice([0, 0, 250, 999]))

    def geo(self):
        if self.maybe(0.1):
            return {"lon": self.choice([-179.5, 179.5, 0.0]), "lat": self.choice([-89.0, 89.0, 0.0])}
        return {"lon": round(self.uniform(-180, 180), 4), "lat": round(self.uniform(-85, 85), 4)}


def point_id(rng, number):
    """Integers and UUIDs mixed, the same id for the same number within a seed."""
    if number % 3 == 2:
        return str(uuid.UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC834) % (1 << 128)))
    return number


def moment_text(rng, moment):
    forms = [
        moment.isoformat(),
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        moment.strftime("%Y-%m-%dT%H:%M:%S"),
        moment.strftime("%Y-%m-%d"),
        moment.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat(),
    ]
    return rng.choice(forms)


def some(rng, make, most=4):
    """A value, a list of them, an empty list or null."""
    kind = rng.random()
    if kind < 0.62:
        return make()
    if kind < 0.88:
        return [make() for _ in range(rng.randint(1, most))]
    if kind < 0.94:
        return []
    return None


def payload(rng):
    """A document with every kind of field; each is sometimes missing, null, empty, a list, or of another type."""
    made = {
        "city": lambda: some(rng, lambda: rng.choice(CITIES)),
        "tags": lambda: [rng.choice(TAGS) for _ in range(rng.randint(0, 4))],
        "n": lambda: some(rng, lambda: rng.randint(-10, 10)),
        "price": lambda: some(rng, lambda: rng.choice([rng.randint(-5, 50), round(rng.uniform(-5, 50), 2)])),
        "flag": lambda: some(rng, lambda: rng.maybe(0.5)),
        "when": lambda: some(rng, lambda: moment_text(rng, rng.moment())),
        "uid": lambda: some(rng, lambda: str(uuid.UUID(int=rng.randint(1, 40)))),
        "loc": lambda: some(rng, rng.geo),
        "nest": lambda: [nested(rng) for _ in range(rng.randint(0, 3))],
        "obj": lambda: {"deep": {"x": some(rng, lambda: rng.randint(0, 5))}, "name": rng.choice(TAGS)},
        "mixed": lambda: rng.choice([1, 1.0, "1", True, None, [1, "1"], {"a": 1}, 0, False, "true", 10**15, -1.5e300]),
    }
    return {name: make() for name, make in made.items() if rng.maybe(0.85)}


def nested(rng):
    element = {}
    if rng.maybe(0.9):
        element["n"] = rng.randint(0, 6)
    if rng.maybe(0.8):
        element["kind"] = rng.choice(TAGS[:3])
    if rng.maybe(0.5):
        element["values"] = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
    return element


def bounds(rng, make):
    """One or two bounds, open or closed."""
    low, high = sorted([make(), make()])
    found = {}
    if rng.maybe(0.7):
        found[rng.choice(["gt", "gte"])] = low
    if rng.maybe(0.7) or not found:
        found[rng.choice(["lt", "lte"])] = high
    return found


def polygon(rng, center, size):
    """A star-shaped ring around a center."""
    angles = sorted(rng.uniform(0, 2 * np.pi) for _ in range(rng.randint(3, 7)))
    ring = []
    for angle in angles:
        r = size * rng.uniform(0.4, 1.0)
        lon = max(-179.0, min(179.0, center["lon"] + r * float(np.cos(angle))))
        lat = max(-84.0, min(84.0, center["lat"] + r * float(np.sin(angle)) / 2))
        ring.append(models.GeoPoint(lon=lon, lat=lat))
    return models.GeoLineString(points=ring + ring[:1])


def geo_condition(rng):
    center, kind = rng.geo(), rng.random()
    if kind < 0.34:
        radius = rng.choice([5e5, 2e6, 6e6])
        return models.FieldCondition(key="loc", geo_radius=models.GeoRadius(center=models.GeoPoint(**center), radius=radius))
    if kind < 0.67:
        lons = [rng.uniform(-180, 180), rng.uniform(-180, 180)]
        lats = sorted([rng.uniform(-90, 90), rng.uniform(-90, 90)])
        if rng.maybe(0.7):
            lons.sort()
        box = models.GeoBoundingBox(
            top_left=models.GeoPoint(lon=lons[0], lat=lats[1]), bottom_right=models.GeoPoint(lon=lons[1], lat=lats[0])
        )
        return models.FieldCondition(key="loc", geo_bounding_box=box)
    holes = [polygon(rng, center, 8)] if rng.maybe(0.4) else None
    shape = models.GeoPolygon(exterior=polygon(rng, center, 60), interiors=holes)
    return models.FieldCondition(key="loc", geo_polygon=shape)


def match_condition(rng):
    key, values = rng.choice(
        [
            ("city", CITIES),
            ("tags", TAGS),
            ("tags[]", TAGS),
            ("n", list(range(-11, 12))),
            ("nest[].n", list(range(7))),
            ("nest[].kind", TAGS[:4]),
            ("nest[].values[]", list(range(4))),
            ("nest[0].n", list(range(7))),
            ("obj.deep.x", list(range(6))),
            ("obj.name", TAGS),
            ("uid", [str(uuid.UUID(int=i)) for i in range(1, 42)]),
            ("mixed", ["1", "true", "x"]),
            ("mixed", [0, 1, 10**15]),
            ("missing", ["x"]),
        ]
    )
    kind = rng.random()
    if kind < 0.5:
        match = models.MatchValue(value=rng.choice(values))
    elif kind < 0.8:
        match = models.MatchAny(any=rng.sample(values, min(len(values), rng.randint(1, 3))))
    else:
        match = models.MatchExcept(**{"except": rng.sample(values, min(len(values), rng.randint(1, 3)))})
    return models.FieldCondition(key=key, match=match)


def condition(rng, ids, depth=0):
    """One condition of any kind."""

    def bool_match():
        return models.FieldCondition(key=rng.choice(["flag", "mixed"]), match=models.MatchValue(value=rng.maybe(0.5)))

    def number_range():
        key = rng.choice(["n", "price", "nest[].n", "obj.deep.x", "mixed", "city"])
        make = rng.choice([lambda: rng.randint(-8, 20), lambda: round(rng.uniform(-5, 30), 2)])
        return models.FieldCondition(key=key, range=models.Range(**bounds(rng, make)))

    def time_range():
        return models.FieldCondition(key="when", range=models.DatetimeRange(**bounds(rng, rng.moment)))

    def empty():
        key = rng.choice(["city", "tags", "n", "missing", "nest", "nest[].n", "nest[].values", "obj.deep.x", "flag", "loc"])
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))

    def null():
        key = rng.choice(["city", "n", "missing", "mixed", "nest[].n", "obj.deep.x", "when"])
        return models.IsNullCondition(is_null=models.PayloadField(key=key))

    def has_id():
        return models.HasIdCondition(has_id=rng.sample(ids, min(len(ids), rng.randint(1, 40))))

    def count():
        key = rng.choice(["tags", "n", "city", "nest", "nest[].values", "missing", "loc", "obj"])
        return models.FieldCondition(key=key, values_count=models.ValuesCount(**bounds(rng, lambda: rng.randint(0, 4))))

    def nested_condition():
        inner = [
            models.FieldCondition(key="n", match=models.MatchValue(value=rng.randint(0, 6))),
            models.FieldCondition(key="kind", match=models.MatchValue(value=rng.choice(TAGS[:3]))),
            models.FieldCondition(key="n", range=models.Range(gte=rng.randint(0, 4))),
            models.FieldCondition(key="values", match=models.MatchAny(any=[rng.randint(0, 3)])),
            models.IsEmptyCondition(is_empty=models.PayloadField(key="values")),
        ]
        parts = {rng.choice(["must", "must_not", "should"]): rng.sample(inner, rng.randint(1, 2))}
        if rng.maybe(0.4):
            parts.setdefault("must", [rng.choice(inner)])
        key = rng.choice(["nest", "nest[]"])
        return models.NestedCondition(nested=models.Nested(key=key, filter=models.Filter(**parts)))

    def part_of_string():
        key = rng.choice(["city", "tags", "obj.name", "nest[].kind", "mixed", "missing"])
        word = rng.choice(["r", "re", "Ber", "b", "🦀", "x-", "o", "1", "ondo"])
        match = rng.choice([models.MatchPrefix(prefix=word), models.MatchSubstring(substring=word)])
        return models.FieldCondition(key=key, match=match)

    def words():
        # No field of these has a text index here: words are looked for in lower case.
        key = rng.choice(["city", "tags", "obj.name", "missing"])
        word = rng.choice(["berlin", "a", "b a", "a b", "x 1", "Red", "são", "emoji", "green london"])
        match = rng.choice([models.MatchText(text=word), models.MatchTextAny(text_any=word), models.MatchPhrase(phrase=word)])
        return models.FieldCondition(key=key, match=match)

    def slices():
        total = rng.randint(1, 5)
        return models.SliceCondition(slice=models.Slice(total=total, index=rng.randrange(total)))

    def has_vector():
        return models.HasVectorCondition(has_vector=rng.choice(["", "a", "b", "s"]))

    def sub_filter():
        return random_filter(rng, ids, depth + 1)

    makers = [lambda: match_condition(rng)] * 6 + [bool_match, number_range, number_range, time_range, time_range]
    makers += [part_of_string, words, slices, has_vector]
    makers += [empty, null, has_id, count, nested_condition, lambda: geo_condition(rng), lambda: geo_condition(rng)]
    if depth < 2:
        makers += [sub_filter, sub_filter]
    return rng.choice(makers)()


def random_filter(rng, ids, depth=0):
    """Clauses of one to three conditions each."""

    def clause():
        return [condition(rng, ids, depth) for _ in range(rng.choice([1, 1, 2, 3]))]

    parts = {}
    if rng.maybe(0.6):
        parts["must"] = clause()
    if rng.maybe(0.4):
        parts["should"] = clause()
    if rng.maybe(0.3):
        parts["must_not"] = clause()
    if rng.maybe(0.15) or not parts:
        conditions = [condition(rng, ids, depth) for _ in range(rng.randint(2, 4))]
        parts["min_should"] = models.MinShould(conditions=conditions, min_count=rng.randint(1, 2))
    return models.Filter(**parts)
