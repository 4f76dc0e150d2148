"""`python -m ramlet migrate`: what other libraries hold comes over whole. Those that aren't installed are skipped, and said."""

import gzip
import json
import uuid

import numpy as np
import pytest
import ramlet
from ramlet.migrate import MigrationError, Rows, copy, main
from ramlet.migrate._targets import Database

DIM = 8


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((700, DIM), dtype=np.float32)


@pytest.fixture
def into(tmp_path):
    return tmp_path / "data"


def migrate(into, *words):
    return main([*map(str, words), "--into", str(into), "--memory", "64MB", "--collection", "c", "--quiet"])


def points(into):
    with ramlet.open(into, memory="64MB") as db:
        return {point.id: point for point in db["c"].scroll(with_vectors=True)}, db["c"].info()["config"]["params"]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def same(point, row):
    np.testing.assert_array_equal(np.asarray(point.vector, dtype=np.float32), row)


def refused(capsys, into, *words):
    assert migrate(into, *words) == 1
    return capsys.readouterr().err


def test_chroma_comes_over_with_documents_and_metadata(tmp_path, into, vectors, capsys):
    chromadb = pytest.importorskip("chromadb")
    # A process has one client of a directory, and all have its settings.
    client = chromadb.PersistentClient(path=str(tmp_path / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False))
    made = client.create_collection("notes", embedding_function=None, configuration={"hnsw": {"space": "cosine"}})
    key = str(uuid.uuid4())
    ids = [key, *[f"note-{n}" for n in range(1, len(vectors))]]
    made.add(ids=ids, embeddings=vectors, documents=[f"text {n}" for n in range(len(ids))], metadatas=[{"n": n} for n in range(len(ids))])
    assert migrate(into, "chroma", tmp_path / "chroma", "--batch", 64, "--text", "document") == 0
    assert "700 new points" in capsys.readouterr().out
    there, params = points(into)
    assert params["vectors"]["distance"] == "Cosine" and len(there) == 700
    assert there[key].payload == {"n": 0, "document": "text 0"}
    other = there[str(uuid.uuid5(uuid.NAMESPACE_OID, "note-9"))]
    assert other.payload == {"n": 9, "document": "text 9", "id": "note-9"}
    np.testing.assert_allclose(other.vector, unit(vectors)[9], atol=1e-5)
    with ramlet.open(into, memory="64MB") as db:
        assert db["c"].query("9", using="document", with_payload=True)[0].payload["n"] == 9
    client.create_collection("second", embedding_function=None)
    assert "--from-collection" in refused(capsys, into, "chroma", tmp_path / "chroma")
    assert "notes, second" in refused(capsys, into, "chroma", tmp_path / "chroma", "--from-collection", "third")
    assert "chroma.sqlite3" in refused(capsys, into, "chroma", tmp_path)


def test_lancedb_comes_over_with_its_columns(tmp_path, into, vectors, capsys):
    lancedb, pa = pytest.importorskip("lancedb"), pytest.importorskip("pyarrow")
    width = pa.list_(pa.float32(), DIM)
    column = pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIM)
    table = pa.table({"id": range(1, 701), "vector": column, "title": [f"t{n}" for n in range(700)], "gone": [None, 1] * 350})
    connection = lancedb.connect(tmp_path / "lance")
    connection.create_table("docs", table)
    assert migrate(into, "lancedb", tmp_path / "lance", "--distance", "Dot") == 0
    there, params = points(into)
    assert params["vectors"]["distance"] == "Dot" and len(there) == 700
    assert there[3].payload == {"title": "t2"} and there[4].payload == {"title": "t3", "gone": 1}
    same(there[700], vectors[699])
    # One table by its path, two vectors, rows without an id.
    both = pa.table({"a": column, "b": pa.array([row.tolist() for row in vectors], width), "blob": [b"x"] * 700})
    connection.create_table("both", both)
    path = tmp_path / "lance" / "both.lance"
    other = tmp_path / "other"
    assert "--without" in refused(capsys, other, "lancedb", path)
    assert migrate(other, "lancedb", path, "--without", "blob", "--resume") == 0
    there, params = points(other)
    assert set(params["vectors"]) == {"a", "b"} and len(there) == 700
    assert "there is no column 'v'" in refused(capsys, other, "lancedb", path, "--vector-field", "v")
    assert "docs" in refused(capsys, other, "lancedb", tmp_path / "lance")


@pytest.mark.parametrize("kind", ["Flat", "HNSW16,Flat", "IVF4,Flat", "IVF4,PQ4x4,RFlat"])
def test_faiss_comes_over_as_it_was(tmp_path, into, vectors, kind):
    faiss = pytest.importorskip("faiss")
    index = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"n": n}) + "\n" for n in range(700)))
    assert migrate(into, "faiss", tmp_path / "index.faiss", "--payload", tmp_path / "p.jsonl") == 0
    there, params = points(into)
    assert params["vectors"]["distance"] == "Dot" and sorted(there) == list(range(700))
    for n in (0, 350, 699):
        same(there[n], vectors[n])
        assert there[n].payload == {"n": n}


def test_faiss_keeps_ids_and_tells_codes_from_vectors(tmp_path, into, vectors, capsys):
    faiss = pytest.importorskip("faiss")
    path = tmp_path / "index.faiss"
    ids = np.arange(700, dtype=np.int64) * 3 + 5
    for make in (lambda: faiss.IndexIDMap2(faiss.IndexFlatL2(DIM)), lambda: faiss.index_factory(DIM, "IVF4,Flat")):
        index = make()
        index.train(vectors)
        index.add_with_ids(vectors, ids)
        faiss.write_index(index, str(path))
        assert migrate(into, "faiss", path) == 0
        there, params = points(into)
        assert params["vectors"]["distance"] == "Euclid" and sorted(there) == ids.tolist()
        same(there[5 + 3 * 699], vectors[699])
    coded = faiss.index_factory(DIM, "PQ4x4")
    coded.train(vectors)
    coded.add(vectors)
    faiss.write_index(coded, str(path))
    other = tmp_path / "other"
    assert "--approximate" in refused(capsys, other, "faiss", path)
    assert migrate(other, "faiss", path, "--approximate") == 0
    assert len(points(other)[0]) == 700
    (tmp_path / "short.jsonl").write_text("{}\n")
    assert "ends after 1 lines" in refused(capsys, other, "faiss", path, "--approximate", "--payload", tmp_path / "short.jsonl")
    path.write_bytes(b"no index")
    assert "isn't an index of FAISS" in refused(capsys, other, "faiss", path)


def test_hnswlib_comes_over_without_what_was_deleted(tmp_path, into, vectors, capsys):
    hnswlib = pytest.importorskip("hnswlib")
    path = tmp_path / "index.bin"
    index = hnswlib.Index(space="l2", dim=DIM)
    index.init_index(max_elements=1000)
    index.add_items(vectors, np.arange(700) + 10)
    index.mark_deleted(12)
    index.save_index(str(path))
    assert migrate(into, "hnswlib", path, "--space", "l2", "--batch", 100) == 0
    there, params = points(into)
    assert params["vectors"]["distance"] == "Euclid"
    assert sorted(there) == [n for n in range(10, 710) if n != 12]
    same(there[13], vectors[3])
    path.write_bytes(bytes(200))
    assert "isn't an index of hnswlib" in refused(capsys, into, "hnswlib", path, "--space", "l2")


DUMP = r"""--
-- PostgreSQL database dump
--
CREATE TABLE public.users (
    id bigint NOT NULL,
    name text
);
CREATE TABLE public.items (
    id bigint NOT NULL,
    body text,
    embedding public.vector(3),
    words public.sparsevec(5),
    price numeric(10,2) DEFAULT 0,
    "on Sale" boolean,
    extra jsonb,
    tags text[],
    counts integer[],
    grid integer[][]
);
COPY public.users (id, name) FROM stdin;
1	somebody
\.
COPY public.items (id, body, embedding, words, price, "on Sale", extra, tags, counts, grid) FROM stdin;
1	a tab\tand a line\nand \\N	[1,2,3]	{1:0.5,5:2}/5	9.50	t	{"a": [1]}	{a,"b, \\"c\\"",NULL,"NULL"}	{1,-2}	{{1,2},{3,4}}
2	\N	\N	\N	\N	f	\N	{}	\N	\N
3	caf\303\251 é	[-1e-3,2.5,0]	{}/5	NaN	\N	null	\N	\N	\N
\.
SELECT 1;
"""


def test_a_dump_of_postgresql_comes_over_with_its_types(tmp_path, into, capsys):
    for name, write in (("dump.sql", lambda path: path.write_text(DUMP)), ("dump.sql.gz", lambda path: path.write_bytes(gzip.compress(DUMP.encode())))):
        write(tmp_path / name)
        assert migrate(into, "pgvector", tmp_path / name) == 0
        there, params = points(into)
        assert sorted(there) == [1, 2, 3]
        assert there[1].payload == {"body": "a tab\tand a line\nand \\N", "price": 9.5, "on Sale": True, "extra": {"a": [1]}, "tags": ["a", 'b, "c"', None, "NULL"], "counts": [1, -2],
                                    "grid": "{{1,2},{3,4}}"}
        assert there[2].payload == {"on Sale": False, "tags": []}
        vectors = there[1].vector
        assert vectors["words"] == {"indices": [0, 4], "values": [0.5, 2.0]}
        assert set(params["sparse_vectors"]) == {"words"}
    assert "users" in refused(capsys, into, "pgvector", tmp_path / "dump.sql", "--from-collection", "nobody")


def test_bare_rows_of_copy_need_names_and_bad_ones_are_named(tmp_path, into, capsys, monkeypatch):
    path = tmp_path / "rows.txt"
    path.write_text("a-1\t[1,0]\t7\na-2\t[0,1]\t8\n")
    assert "--columns" in refused(capsys, into, "pgvector", path)
    assert migrate(into, "pgvector", path, "--columns", "id,v,n", "--types", "n=int") == 0
    there, _ = points(into)
    assert there[str(uuid.uuid5(uuid.NAMESPACE_OID, "a-1"))].payload == {"id": "a-1", "n": 7}
    for text, said in (
        ("1\t[1,0]\n2\t[1,x]\n", "line 2"),
        ("1\t[1,0]\n2\t[1]\n", "1, 2 dimensions"),
        ("1\t[1,0]\t3\n", "3 columns in place of 2"),
        ("1\t[1,0,0]\n", "2"),
    ):
        path.write_text(text)
        assert said in refused(capsys, into, "pgvector", path, "--columns", "id,v"), text
    path.write_bytes(b"PGDMP\x01")
    assert "pg_restore" in refused(capsys, into, "pgvector", path)
    (tmp_path / "cut.sql").write_text(DUMP.split("\n3\t")[0])
    assert "truncated" in refused(capsys, into, "pgvector", tmp_path / "cut.sql", "--resume")


class Given:
    """A source of rows, of which reading fails at one place."""

    def __init__(self, rows, fails_at=None):
        self.total, self.dim, self.distance = len(rows), rows.shape[1], None
        self._rows, self._fails_at = rows, fails_at

    def rows(self, size):
        for first in range(0, self.total, size):
            if first == self._fails_at:
                raise MigrationError("the disk is gone")
            some = self._rows[first : first + size]
            yield Rows(list(range(first, first + len(some))), {"": some}, [{"n": n} for n in range(first, first + len(some))])


def test_what_was_cut_off_goes_on(into, vectors):
    with Database(str(into), "64MB", "c") as target:
        with pytest.raises(MigrationError, match="after 200 rows: the disk is gone(.|\n)*--resume"):
            copy(Given(vectors, fails_at=200), target, batch=100)
        told = copy(Given(vectors), target, batch=100, resume=True)
        assert (told.rows, told.skipped, told.before, told.after) == (700, 200, 200, 700)
        told = copy(Given(vectors), target, batch=100)
        assert str(told) == "700 rows: 0 new points, 700 replaced ones"
        with pytest.raises(MigrationError, match="4 dimensions.*has 8"):
            copy(Given(np.ones((3, 4), dtype=np.float32)), target)
        with pytest.raises(MigrationError, match="no rows"):
            copy(Given(vectors[:0]), target)


def test_a_running_server_takes_them_too(tmp_path, vectors, capsys):
    from test_program import program, served

    if program() is None:
        pytest.skip("this wheel was built without the program")
    with served(tmp_path / "data") as url:
        (tmp_path / "dump.sql").write_text(DUMP)
        words = ["pgvector", str(tmp_path / "dump.sql"), "--url", url, "--collection", "c", "--text", "body", "--quiet"]
        assert main(words) == 0
        assert main([*words, "--resume"]) == 0
        assert "3 were there already" in capsys.readouterr().out
    there, _ = points(tmp_path / "data")
    assert sorted(there) == [1, 2, 3] and there[1].vector["words"]["indices"] == [0, 4]
    assert main(words) == 1
    assert "doesn't answer" in capsys.readouterr().err
