"""Points in and out: a model, ids, payloads, modes, scrolls, deletes, snapshots, reopening."""

import datetime
import enum
import uuid
from decimal import Decimal

import numpy as np
import pytest
import ramlet


def test_upserts_and_deletes_follow_a_model(tmp_path, rng):
    model, path = {}, tmp_path / "data"
    db = ramlet.open(path, memory="64MB")
    docs = db.create("docs", dim=4, distance="dot")
    for step in range(60):
        some = rng.choice(400, size=int(rng.integers(1, 60)), replace=False)
        kind = rng.integers(0, 4)
        if kind < 3:
            vectors = rng.standard_normal((len(some), 4)).astype(np.float32)
            payload = [{"step": step, "id": int(id)} for id in some]
            docs.add(vectors, ids=some, payload=payload if kind else None)
            for at, id in enumerate(some):
                model[int(id)] = (vectors[at].tolist(), payload[at] if kind else {})
        else:
            gone = docs.delete(some.tolist(), batch=7)
            assert gone == sum(int(id) in model for id in some)
            for id in some:
                model.pop(int(id), None)
        if step % 20 == 13:
            docs.settle()
        if step % 15 == 14:
            db.close()
            db = ramlet.open(path, memory="64MB")
            docs = db["docs"]
        assert docs.count() == len(model)
    found = {point.id: (point.vector, point.payload) for point in docs.scroll(with_vectors=True, batch=37)}
    assert sorted(found) == sorted(model)
    for id, (vector, payload) in found.items():
        assert payload == model[id][1]
        np.testing.assert_allclose(vector, model[id][0], rtol=1e-6)
    db.close()


def test_ids_of_every_kind(db):
    docs = db.create("docs", dim=1, distance="dot")
    own = uuid.uuid4()
    for ids, expected in [
        (range(3, 0, -1), [3, 2, 1]),
        (np.array([2**63, 2**64 - 1], dtype=np.uint64), [2**63, 2**64 - 1]),
        (np.array([5, 6], dtype=np.int16), [5, 6]),
        ([7, str(own)], [7, str(own)]),
        ([own, np.int64(8)], [str(own), 8]),
        (np.array([str(own), str(uuid.UUID(int=9))]), [str(own), str(uuid.UUID(int=9))]),
        (iter([10, 11]), [10, 11]),
    ]:
        docs.delete(where={})
        ids = list(ids) if hasattr(ids, "__next__") else ids
        docs.add(np.arange(len(ids))[:, None], ids=ids)
        found = sorted((point.id for point in docs.scroll()), key=str)
        assert found == sorted(expected, key=str)
    docs.delete(where={})
    new = docs.add(np.zeros((300, 1)) + 1)
    assert len({uuid.UUID(id) for id in new}) == 300 and new == sorted(new)
    assert {point.id for point in docs.scroll()} == set(new)
    hits = docs.search([[1.0]], limit=5)
    assert hits.ids.dtype == object and set(hits.ids[0]) <= set(new)


def test_payloads_keep_their_values(db):
    class Kind(enum.Enum):
        A = "a"

    docs = db.create("docs")
    rich = {
        "s": "ü\n\"'\u2028", "i": -(2**63), "u": 2**64 - 1, "f": 0.1, "b": True, "n": None, "l": [1, [2.5, {}]],
        "np": np.float32(0.5), "array": np.arange(3), "when": datetime.datetime(2024, 5, 1, 12), "day": datetime.date(2024, 5, 1),
        "id": uuid.UUID(int=3), "kind": Kind.A, "d": Decimal("1.5"), "t": (1, 2),
    }
    docs.add(ids=[1], payload=[rich])
    told = docs.get(1)[0].payload
    assert told == {
        **rich, "np": 0.5, "array": [0, 1, 2], "when": "2024-05-01T12:00:00", "day": "2024-05-01", "id": str(uuid.UUID(int=3)),
        "kind": "a", "d": 1.5, "t": [1, 2],
    }
    docs.set_payload({"s": "new"}, ids=[1])
    assert docs.get([1])[0].payload["s"] == "new"


def test_modes(db):
    docs = db.create("docs", dim=1, distance="dot")
    docs.add([[1.0], [2.0]], ids=[1, 2])
    docs.add([[5.0], [3.0]], ids=[1, 3], mode="insert")
    docs.add([[7.0], [9.0]], ids=[2, 4], mode="update")
    assert {point.id: point.vector for point in docs.scroll(with_vectors=True)} == {1: [1.0], 2: [7.0], 3: [3.0]}


def test_scrolls_are_bounded_and_ordered(db):
    docs = db.create("docs", indexes={"rank": "integer"})
    docs.add(ids=range(1_000), payload={"rank": [-i for i in range(1_000)]})
    assert [point.id for point in docs.scroll(limit=10, batch=3)] == list(range(10))
    assert sum(1 for _ in docs.scroll(batch=64)) == 1_000
    assert [point.id for point in docs.scroll(order_by="rank", limit=3)] == [999, 998, 997]
    assert [point.id for point in docs.scroll(where={"rank": {"gt": -3}}, with_payload=False)] == [0, 1, 2]
    told = []
    assert docs.delete((id for id in range(995, 2_000)), batch=100, progress=lambda done, total: told.append(done)) == 5
    assert told[-1] == 1_005
    assert docs.delete(where={"rank": {"gte": -9}}) == 10 and docs.count() == 985


def test_snapshots_bring_back_what_was(db, tmp_path, rng):
    docs = db.create("docs", dim=8)
    docs.add(rng.standard_normal((500, 8)), ids=range(500), payload={"n": list(range(500))})
    before = [(point.id, point.vector, point.payload) for point in docs.scroll(with_vectors=True)]
    file = docs.snapshot(tmp_path / "docs.snapshot")
    with pytest.raises(ramlet.BadInputError, match="doesn't replace a file"):
        docs.snapshot(file)
    docs.delete(where={})
    docs.restore(file)
    assert [(point.id, point.vector, point.payload) for point in docs.scroll(with_vectors=True)] == before
    whole = db.snapshot(tmp_path / "all.snapshot")
    assert whole.stat().st_size > file.stat().st_size // 2
    assert db.request("GET", "/snapshots") == [] and db.request("GET", "/collections/docs/snapshots") == []
    with pytest.raises(ramlet.StorageError, match="no-such"):
        docs.restore(tmp_path / "no-such.snapshot")
    damaged = tmp_path / "damaged"
    damaged.write_bytes(file.read_bytes()[:5_000])
    with pytest.raises(ramlet.RamletError):
        docs.restore(damaged)
    assert docs.count() == 500


def test_collections_by_name(db):
    docs = db.create("docs", dim=2)
    assert "docs" in db and "other" not in db
    assert [each.name for each in db] == ["docs"] and len(docs) == 0 and docs
    assert db.create("docs", dim=3, exist_ok=True).info()["config"]["params"]["vectors"]["size"] == 2
    with pytest.raises(ramlet.AlreadyExistsError, match="exist_ok=True"):
        db.create("docs", dim=3)
    db.request("POST", "/collections/aliases", {"actions": [{"create_alias": {"alias_name": "d", "collection_name": "docs"}}]})
    assert db["d"].count() == 0
    docs.update(optimizers_config={"indexing_threshold": 5})
    assert docs.info()["config"]["optimizer_config"]["indexing_threshold"] == 5
    odd = db.create("a b#ü%&", dim=2)
    assert odd.add([[1, 2]], ids=[1]).tolist() == [1] and odd.search([1, 2]).ids.tolist() == [1]
    assert db.delete_collection("docs") and not db.delete_collection("docs")
    with pytest.raises(ramlet.NotFoundError):
        docs.count()


def test_plans(db):
    small, large = (ramlet.plan(1_000_000, 100, memory=memory) for memory in ("64MB", "512MB"))
    assert small["memory_bytes"] == 64_000_000 and large["qps"] > small["qps"]
    most = ramlet.plan(1_000_000, 100)
    assert most["qps"] >= large["qps"]
    assert db.plan(10_000, 32)["memory_bytes"] == 64_000_000
    db.create("docs", dim=8)
    assert db.plan(collection="docs", points=5)["spec"]["dims"] == 8
    with pytest.raises(ramlet.BudgetError) as refused:
        ramlet.plan(1_000_000, 100, memory="5MB")
    assert refused.value.available_bytes == 5_000_000 < refused.value.needed_bytes


def test_shard_keys(db, rng):
    docs = db.create("docs", dim=4, sharding_method="custom")
    for key in ("a", "b"):
        db.request("PUT", "/collections/docs/shards", {"shard_key": key})
    rows = rng.standard_normal((20, 4))
    docs.add(rows[:10], ids=range(10), shard_key="a")
    docs.add(rows[10:], ids=range(10, 20), shard_key="b")
    with pytest.raises(ramlet.BadInputError, match="Shard key"):
        docs.add(rows, ids=range(20))
    assert sorted(docs.search(rows[0], limit=20).ids) == list(range(20))
    assert sorted(docs.search(rows[0], limit=20, shard_key="b").ids) == list(range(10, 20))
