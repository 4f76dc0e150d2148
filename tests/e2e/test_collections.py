"""Collections, aliases and payload indexes as the client makes and sees them."""

import pytest
from qdrant_client import models

import conftest
from compare import attempt, Refused

PARAMS = models.VectorParams(size=4, distance=models.Distance.COSINE)


def test_life_of_a_collection(pair):
    name = pair.create(PARAMS)
    pair.agree("collections", lambda c: c.collection_exists(name))
    pair.agree("collections", lambda c: c.collection_exists("no-such-collection"))
    assert name in [c.name for c in pair.remote.get_collections().collections]
    pair.agree("refusals", lambda c: c.create_collection(name, vectors_config=PARAMS))
    pair.agree("refusals", lambda c: c.get_collection("no-such-collection"))
    pair.agree("refusals", lambda c: c.count("no-such-collection"))
    points = [models.PointStruct(id=n, vector=[0.1, 0.2, 0.3, n + 1.0]) for n in range(7)]
    pair.both(lambda c: c.upsert(name, points, wait=True))
    info = pair.remote.get_collection(name)
    assert info.points_count == 7
    assert info.status == models.CollectionStatus.GREEN
    assert info.config.params.vectors.size == 4 and info.config.params.vectors.distance == models.Distance.COSINE
    pair.agree("collections", lambda c: c.delete_collection(name))
    pair.agree("collections", lambda c: c.collection_exists(name))
    pair.create(PARAMS)
    pair.agree("counts", lambda c: c.count(name).count)


def test_settings_are_kept(remote):
    """Every setting of the API that a client may send comes back as it was, whether or not it is acted upon."""
    if conftest.SELF:
        pytest.skip("the local mode keeps no settings")
    name = "settings"
    remote.create_collection(
        name,
        vectors_config={
            "a": models.VectorParams(
                size=3,
                distance=models.Distance.EUCLID,
                on_disk=True,
                datatype=models.Datatype.FLOAT16,
                hnsw_config=models.HnswConfigDiff(m=32),
                quantization_config=models.ScalarQuantization(
                    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
                ),
            ),
            "b": models.VectorParams(size=2, distance=models.Distance.MANHATTAN),
        },
        hnsw_config=models.HnswConfigDiff(m=24, ef_construct=200, on_disk=True),
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=5000, default_segment_number=2),
        wal_config=models.WalConfigDiff(wal_capacity_mb=16),
        on_disk_payload=True,
    )
    config = remote.get_collection(name).config
    a, b = config.params.vectors["a"], config.params.vectors["b"]
    assert (a.size, a.distance, a.on_disk, a.datatype) == (3, models.Distance.EUCLID, True, models.Datatype.FLOAT16)
    assert (b.size, b.distance) == (2, models.Distance.MANHATTAN)
    assert a.hnsw_config.m == 32 and a.quantization_config.scalar.quantile == pytest.approx(0.99)
    assert (config.hnsw_config.m, config.hnsw_config.ef_construct) == (24, 200)
    assert config.optimizer_config.indexing_threshold == 5000
    assert config.params.on_disk_payload is True
    remote.update_collection(
        name,
        optimizers_config=models.OptimizersConfigDiff(indexing_threshold=7000),
        hnsw_config=models.HnswConfigDiff(m=12),
    )
    config = remote.get_collection(name).config
    assert config.optimizer_config.indexing_threshold == 7000 and config.hnsw_config.m == 12
    assert config.hnsw_config.ef_construct == 200, "a setting that wasn't sent is left alone"
    remote.delete_collection(name)


def test_aliases(pair):
    one, two = pair.create(PARAMS, name="alias-one"), pair.create(PARAMS, name="alias-two")
    for number, name in enumerate([one, two]):
        points = [models.PointStruct(id=n, vector=[1.0, 0.0, 0.0, n * 0.1]) for n in range(number + 1)]
        pair.both(lambda c: c.upsert(name, points, wait=True))

    def change(*operations):
        pair.agree("aliases", lambda c: c.update_collection_aliases(change_aliases_operations=list(operations)))
        pair.agree("aliases", lambda c: sorted((a.alias_name, a.collection_name) for a in c.get_aliases().aliases if a.collection_name.startswith("alias-")))
        for alias in ["current", "next"]:
            pair.agree("aliases", lambda c: c.count(alias).count)

    def create(alias, collection):
        return models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=collection))

    def delete(alias):
        return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))

    change(create("current", one))
    change(delete("current"), create("current", two))
    rename = models.RenameAliasOperation(rename_alias=models.RenameAlias(old_alias_name="current", new_alias_name="next"))
    change(rename)
    pair.agree("aliases", lambda c: [a.alias_name for a in c.get_collection_aliases(two).aliases])
    change(create("next", one))
    change(delete("next"))
    # The usual switch, the first time: what isn't there is gone already.
    change(delete("current"), create("current", one))
    change(delete("current"), delete("current"))
    pair.agree("refusals", lambda c: c.update_collection_aliases(change_aliases_operations=[create("x", "no-such-collection")]))


def test_payload_indexes_are_shown(remote):
    if conftest.SELF:
        pytest.skip("the local mode has no indexes")
    name = "indexes"
    remote.create_collection(name, vectors_config=PARAMS)
    points = [models.PointStruct(id=n, vector=[1.0, 2.0, 3.0, 4.0], payload={"n": n, "s": "x"} if n % 2 else {"n": n}) for n in range(10)]
    remote.upsert(name, points, wait=True)
    remote.create_payload_index(name, "n", models.PayloadSchemaType.INTEGER, wait=True)
    remote.create_payload_index(name, "s", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True), wait=True)
    schema = remote.get_collection(name).payload_schema
    assert schema["n"].data_type == models.PayloadSchemaType.INTEGER and schema["n"].points == 10
    assert schema["s"].data_type == models.PayloadSchemaType.KEYWORD and schema["s"].points == 5
    remote.delete_payload_index(name, "n", wait=True)
    assert set(remote.get_collection(name).payload_schema) == {"s"}
    # Deleting an index that isn't there is no error.
    remote.delete_payload_index(name, "n", wait=True)
    remote.delete_collection(name)


def test_collection_names(remote):
    if conftest.SELF:
        pytest.skip("the local mode checks no names")
    for name in ["with-dash_and.dot", "ünïcode", "a" * 200]:
        assert remote.create_collection(name, vectors_config=PARAMS)
        assert remote.count(name).count == 0
        remote.delete_collection(name)
    for name in ["", "a/b", "..", "a\\b", "a:b", "a*b", "a" * 300, "../../etc/passwd", "a\x00b"]:
        refused = attempt(lambda c, name=name: c.create_collection(name, vectors_config=PARAMS), remote)
        assert isinstance(refused, Refused), f"the name {name!r} was taken"
