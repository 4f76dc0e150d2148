"""Frames of pyarrow, pandas and polars: their columns become ids, vectors and payload."""

import numpy as np
import pytest
import ramlet

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

N = 20_000


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(2).standard_normal((N, 8), dtype=np.float32)


def table(rows):
    return pa.table(
        {
            "id": np.arange(N, dtype=np.int64) * 2,
            "vector": pa.FixedSizeListArray.from_arrays(rows.ravel(), 8),
            "lang": pa.array(["en", None] * (N // 2)),
            "meta": pa.array([{"year": 2000 + i % 3} for i in range(N)]),
        }
    )


class Stream:
    """Somebody else's table: known by its interface alone."""

    def __init__(self, inner):
        self._inner = inner

    def __arrow_c_stream__(self, requested_schema=None):
        return self._inner.__arrow_c_stream__(requested_schema)


FRAMES = {
    "table": table,
    "sliced": lambda rows: pa.concat_tables([table(rows).slice(0, 777), table(rows).slice(777)]),
    "batch": lambda rows: table(rows).combine_chunks().to_batches()[0],
    "reader": lambda rows: table(rows).to_reader(max_chunksize=3_000),
    "stream": lambda rows: Stream(table(rows)),
    "lists": lambda rows: table(rows).set_column(1, "vector", pa.array(list(rows))),
    "half": lambda rows: table(rows).set_column(1, "vector", pa.FixedSizeListArray.from_arrays(pa.array(rows.astype(np.float64).ravel()), 8)),
    "pandas": lambda rows: table(rows).to_pandas(),
    "pandas, own": lambda rows: pd.DataFrame(
        {"id": np.arange(N) * 2, "vector": list(rows), "lang": ["en", None] * (N // 2), "meta": [{"year": 2000 + i % 3} for i in range(N)]},
        index=np.arange(N) + 5,
    ),
    "polars": lambda rows: pl.from_arrow(table(rows)),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("arrow", [True, False])
def test_a_frame_becomes_points(db, rows, kind, arrow, monkeypatch):
    frame = FRAMES[kind](rows)
    if not arrow:
        if kind.split(",")[0] not in ("pandas", "polars"):
            pytest.skip("Arrow's own")
        monkeypatch.setattr("ramlet._frames._pyarrow", lambda: None)
    docs = db.create("docs", dim=8, distance="dot")
    told = []
    ids = docs.add(frame, progress=lambda done, total: told.append((done, total)))
    assert ids.tolist() == list(range(0, 2 * N, 2)) and told[-1][0] == N
    for at in (0, 1, 776, 777, 778, N - 1):
        point = docs.get(2 * at, with_vectors=True)[0]
        np.testing.assert_allclose(point.vector, rows[at], rtol=1e-6)
        assert point.payload == {**({"lang": "en"} if at % 2 == 0 else {}), "meta": {"year": 2000 + at % 3}}
    assert docs.count(where={"meta.year": 2001}) == len(range(1, N, 3))


def test_columns_are_named_or_guessed(db, rows):
    docs = db.create("docs", dim=8)
    frame = pd.DataFrame({"key": [5, 6], "emb": list(rows[:2])})
    with pytest.raises(ramlet.BadInputError, match="vector_column=; the columns are key, emb"):
        docs.add(frame)
    with pytest.raises(ramlet.BadInputError, match="no column 'nope'"):
        docs.add(frame, vector_column="nope")
    with pytest.raises(ramlet.BadInputError, match="ids='nope'"):
        docs.add(frame, ids="nope", vector_column="emb")
    assert docs.add(frame, ids="key", vector_column="emb").tolist() == [5, 6]
    assert docs.add(frame, ids=[7, 8], vector_column="emb").tolist() == [7, 8]
    assert docs.get(7)[0].payload == {"key": 5}
    assert len(docs.add(frame, vector_column="emb")) == 2
    both = db.create("both", vectors={"a": 8, "b": 8})
    both.add(pl.DataFrame({"id": [1], "a": rows[:1], "x": rows[1:2]}), vector_column={"a": "a", "b": "x"})
    assert set(both.get(1, with_vectors=True)[0].vector) == {"a", "b"}
    # Beside an array, a frame of payload alone.
    docs.add(rows[:2], ids=[20, 21], payload=pd.DataFrame({"n": [1.5, None]}))
    assert [point.payload for point in docs.get([20, 21])] == [{"n": 1.5}, {}]
    uuids = [f"00000000-0000-0000-0000-00000000000{i}" for i in (1, 2)]
    assert docs.add(pa.table({"id": uuids, "vector": pa.array(list(rows[:2]))})) == uuids


@pytest.mark.parametrize(
    "column, told",
    [
        (pa.array([[1.0] * 8, None]), "row 1: null"),
        (pa.array([[1.0] * 8, [1.0] * 7]), "row 1: 7 numbers, but 8"),
        (pa.array([[1.0] * 8, [1.0] * 7 + [None]]), "has a null"),
        (pa.array([1.0, 2.0]), "lists of numbers"),
        (pa.array([[1.0] * 7] * 2), "7 dimensions"),
    ],
)
def test_columns_that_are_no_vectors(db, column, told):
    docs = db.create("docs", dim=8)
    with pytest.raises(ramlet.BadInputError, match=told):
        docs.add(pa.table({"id": [1, 2], "vector": column}))
    with pytest.raises(ramlet.BadInputError, match="null instead of an id"):
        docs.add(pa.table({"id": pa.array([1, None]), "vector": pa.array([[1.0] * 8] * 2)}))
    assert docs.count() == 0


def test_sparse_and_texts_from_a_frame(db):
    docs = db.create("docs", sparse=["s"])
    docs.add(pa.table({"id": [1, 2], "s": [{"indices": [3], "values": [0.5]}, {"indices": [4], "values": [1.0]}]}), vector_column={"s": "s"})
    assert [point.id for point in docs.query({"indices": [4], "values": [1.0]}, using="s")] == [2]


def test_a_column_alone_is_an_array_of_vectors(db):
    pa, pd, pl = pytest.importorskip("pyarrow"), pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    docs = db.create("columns", dim=3, distance="euclid")
    series = pd.Series(list(rows))
    for column in [
        series,
        pd.Series(rows.tolist()),
        pl.Series(rows.tolist()),
        pl.Series(rows.tolist(), dtype=pl.Array(pl.Float32, 3)),
        pa.array(rows.tolist()),
        pa.array(rows.tolist(), pa.list_(pa.float32(), 3)),
        pa.chunked_array([rows[:1].tolist(), rows[1:].tolist()]),
    ]:
        docs.delete(where={})
        docs.add(column, ids=(number for number in range(4)))
        assert [point.vector for point in docs.get(range(4), with_vectors=True)] == rows.tolist(), type(column)
    with pytest.raises(ramlet.BadInputError, match="different lengths"):
        docs.add(pd.Series([[1, 2, 3], [1]]), ids=[1, 2])
    with pytest.raises(ramlet.BadInputError, match="numbers"):
        docs.add(pd.Series(["a", "b"]), ids=[1, 2])
