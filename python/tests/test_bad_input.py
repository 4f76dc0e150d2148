"""What can't be done is refused, with the cure, and nothing is changed."""

import numpy as np
import pytest
import ramlet


@pytest.fixture
def docs(db):
    docs = db.create("docs", dim=3)
    docs.add(np.eye(3), ids=[1, 2, 3])
    return docs


NAN = np.array([[1, 2, 3], [1, np.nan, 3]])


@pytest.mark.parametrize(
    "given, told",
    [
        (dict(vectors=np.ones((2, 4)), ids=[1, 2]), "4 dimensions, the collection has 3"),
        (dict(vectors=NAN, ids=[1, 2]), "row 1: point 2.*NaN"),
        (dict(vectors=np.full((1, 3), np.inf), ids=[1]), "row 0.*infinite|inf"),
        (dict(vectors=np.full((1, 3), 1e300), ids=[1]), "row 0"),
        (dict(vectors=np.ones(3), ids=[1]), r"for one point write \[vector\]"),
        (dict(vectors=np.ones((1, 1, 3)), ids=[1]), "shape"),
        (dict(vectors=[["a", "b", "c"]], ids=[1]), "numbers"),
        (dict(vectors=[[1, 2, 3], [1]], ids=[1, 2]), "different lengths"),
        (dict(vectors=np.ones((1, 3)) * 1j, ids=[1]), "complex"),
        (dict(vectors=np.ones((2, 3)), ids=[1]), "2 vectors, 1 ids"),
        (dict(vectors=np.ones((2, 3)), ids=[1, 2], payload=[{}]), "1 payload"),
        (dict(vectors=np.ones((2, 3)), ids=[1, 2], payload={"a": [1]}), "1 payload column 'a'"),
        (dict(vectors=np.ones((1, 3)), ids=[-1]), r"ids\[0\] is -1"),
        (dict(vectors=np.ones((1, 3)), ids=[2**64]), "2\\*\\*64 - 1"),
        (dict(vectors=np.ones((1, 3)), ids=["x"]), "or a UUID"),
        (dict(vectors=np.ones((1, 3)), ids=[True]), r"ids\[0\] is True"),
        (dict(vectors=np.ones((1, 3)), ids=[1.5]), r"ids\[0\] is 1.5"),
        (dict(vectors=np.ones((1, 3)), ids=np.array([1.5])), "ids of float64"),
        (dict(vectors={"other": np.ones((1, 3))}, ids=[1]), "no vector 'other'"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=[{"a": float("nan")}]), "no place in JSON"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=[{1: "a"}]), "not a str"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=[{"a": object()}]), "type object"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=["text"]), "rows 0 to 0.*object|JSON object"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=[{"a": 2**70}]), "64 bits"),
        (dict(vectors=np.ones((1, 3)), ids=[1], payload=[{"a": "\ud800"}]), "surrogate"),
        (dict(vectors=np.ones((3, 3)), ids=[1, 2, 3], payload={"a": "xyz"}), "payload column 'a' is one text"),
        (dict(vectors=(row for row in np.eye(3)), ids=[1, 2, 3]), r"vectors: generator is neither.*list\(\.\.\)"),
        (dict(vectors=np.ones((1, 3)), ids=[1], mode="replace"), "upsert, insert or update"),
        (dict(vectors=np.ones((1, 3)), ids=[1], progress=3), "tqdm"),
        (dict(), "nothing to add"),
    ],
)
def test_adds(docs, given, told):
    with pytest.raises(ramlet.BadInputError, match=f"(?s){told}"):
        docs.add(**given)
    assert docs.count() == 3


@pytest.mark.parametrize(
    "given, told",
    [
        (dict(queries=[1, 2]), "expected dim: 3, got 2"),
        (dict(queries=[[1, 2, np.nan]]), "NaN"),
        (dict(queries=[]), "empty"),
        (dict(queries="words"), "numbers"),
        (dict(queries=np.ones((2, 2, 3))), "shape"),
        (dict(queries=[1, 2, 3], limit=0), "at least 1"),
        (dict(queries=[1, 2, 3], using="x"), "x"),
        (dict(queries=[1, 2, 3], recall=1.5), "below 1"),
        (dict(queries=[1, 2, 3], filter={"must": [{"key": "a"}]}), "filter"),
        (dict(queries=[1, 2, 3], where="lang=en"), "give a dict"),
        (dict(queries=[1, 2, 3], where={"a": {"gte": 1, "near": 2}}), "only gt, gte, lt and lte"),
        (dict(queries=[1, 2, 3], where={"a": object()}), "give a value"),
        (dict(queries=[1, 2, 3], with_payload=3), "with_payload"),
        (dict(queries=[1, 2, 3], oversampling=0.5), "at least 1"),
    ],
)
def test_searches(docs, given, told):
    with pytest.raises(ramlet.BadInputError, match=told):
        docs.search(**given)


def test_bytes_hold_whole_numbers_only(db):
    docs = db.create("docs", dim=2, datatype="uint8", distance="euclid")
    for wrong, told in [([[1, 2], [0.5, 3]], "0.5 \\(row 1, element 0\\)"), ([[1, 256]], "256"), ([[-1, 0]], "-1"), ([[np.nan, 0]], "nan")]:
        with pytest.raises(ramlet.BadInputError, match=told):
            docs.add(wrong, ids=range(len(wrong)))
    assert docs.count() == 0


def test_opening(db, tmp_path):
    with pytest.raises(ramlet.LockedError, match="holds the lock"):
        ramlet.open(db.path, memory="64MB")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ramlet.BadInputError, match="is a file"):
        ramlet.open(file, memory="64MB")
    with pytest.raises(ramlet.BudgetError) as small:
        ramlet.open(tmp_path / "small", memory="2MB")
    assert small.value.available_bytes == 2_000_000 < small.value.needed_bytes and small.value.is_final
    assert isinstance(small.value, MemoryError)
    for memory, told in [("135", "135MB"), (135, "135MB"), ("12 parsecs", "not a size"), (-1, "bytes"), (1.5, "int"), (True, "int")]:
        with pytest.raises(ramlet.BadInputError, match=told):
            ramlet.open(tmp_path / "x", memory=memory)
    with pytest.raises(ramlet.BadInputError, match="io_uring"):
        ramlet.open(tmp_path / "x", memory="64MB", backend="floppy")
    with pytest.raises(ramlet.BadInputError, match="at least one thread"):
        ramlet.open(tmp_path / "x", memory="64MB", threads=0)


def test_a_closed_database_says_so(db, docs):
    db.close()
    db.close()
    assert db.closed and "closed" in repr(db)
    for call in (docs.count, lambda: docs.add(np.eye(3)), lambda: docs.search([1, 2, 3]), db.memory, db.collections, docs.settle):
        with pytest.raises(ramlet.ClosedError, match="open it again"):
            call()


def test_requests(db, docs):
    with pytest.raises(ramlet.BadInputError, match="dim"):
        db.create("two", dim=2, vectors={"a": 3})
    with pytest.raises(ramlet.BadInputError, match="name is empty"):
        db.create("", dim=2)
    with pytest.raises(ramlet.BadInputError, match="choose points"):
        docs.delete()
    with pytest.raises(ramlet.BadInputError, match="not both"):
        docs.delete([1], where={"a": 1})
    with pytest.raises(ramlet.NotFoundError, match="no path"):
        db.request("GET", "/nowhere")
    with pytest.raises(ramlet.BadInputError):
        db.request("GET", "no path at all")
    with pytest.raises(ramlet.BadInputError):
        docs.query({"nearest": [1, 2]})
    with pytest.raises(ramlet.BadInputError, match="vector_column= is for frames"):
        docs.add(np.eye(3), vector_column="v")


def test_a_batch_that_no_budget_holds_is_cut_or_refused(tmp_path):
    with ramlet.open(tmp_path / "small", memory="10MB", threads=1) as db:
        docs = db.create("docs")
        texts = ["x" * 20_000] * 600
        docs.add(ids=range(600), payload={"text": texts})
        assert docs.count() == 600
        with pytest.raises(ramlet.RamletError):
            docs.add(ids=[1], payload=[{"text": "x" * 30_000_000}])
        assert docs.count() == 600


def test_refusals_for_want_of_memory_are_of_one_class():
    from ramlet.errors import of_response

    said = b'{"status": {"error": "%s: it needs more"}}'
    for status, words, final in ((429, b"Memory budget taken", False), (413, b"Over the memory budget", True), (507, b"Memory full", True)):
        refused = of_response(status, said % words, (5, 3))
        assert isinstance(refused, ramlet.BudgetError) and refused.is_final == final, words
        assert (refused.needed_bytes, refused.available_bytes) == (5, 3)
    assert isinstance(of_response(507, said % b"Disk full", None), ramlet.FullError)


def test_no_time_is_no_text(docs):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ramlet.BadInputError, match="NaT has no place in JSON"):
        docs.add([[1, 2, 3]], ids=[7], payload=[{"at": pd.NaT}])
    docs.add([[1, 2, 3]], ids=[7], payload=[{"at": pd.Timestamp(2020, 1, 2)}])
    assert docs.get([7])[0].payload == {"at": "2020-01-02T00:00:00"}


def test_a_lazy_frame_is_to_be_collected(docs):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": [7], "vector": [[1.0, 2.0, 3.0]]})
    with pytest.raises(ramlet.BadInputError, match="collect"):
        docs.add(frame.lazy())
    docs.add(frame.lazy().collect())
    assert docs.count() == 4
