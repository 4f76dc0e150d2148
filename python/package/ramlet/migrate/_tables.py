"""Collections of Chroma, tables of LanceDB."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np

from ._rows import MigrationError, Rows, needs, plain


def _chosen(kind: str, given: str | None, names: list[str]) -> str:
    """The one that is named, or the only one."""
    known = ", ".join(sorted(names)) or "none"
    if given is None and len(names) == 1:
        return names[0]
    if given is None:
        raise MigrationError(f"choose a {kind} with --from-collection NAME; there are: {known}")
    if given not in names:
        raise MigrationError(f"there is no {kind} {given!r}; there are: {known}")
    return given


class Chroma:
    """A collection of Chroma: embeddings, documents and metadata. Ids are texts there."""

    def __init__(self, args: argparse.Namespace):
        chromadb = needs("chromadb", "chromadb")
        settings = chromadb.Settings(anonymized_telemetry=False)
        url = urlparse(args.path)
        try:
            if url.scheme in ("http", "https"):
                secure = url.scheme == "https"
                client = chromadb.HttpClient(host=url.hostname, port=url.port or (443 if secure else 8000), ssl=secure, settings=settings)
            elif not (Path(args.path) / "chroma.sqlite3").is_file():
                # Chroma would make a directory of its own there.
                raise MigrationError(f"{args.path} isn't a directory of Chroma: it has no chroma.sqlite3")
            else:
                client = chromadb.PersistentClient(path=args.path, settings=settings)
            names = [getattr(each, "name", each) for each in client.list_collections()]
            name = _chosen("collection", args.from_collection, names)
            # Nothing is embedded here, so the model that did it isn't loaded.
            self._from = client.get_collection(name, embedding_function=None)
        except MigrationError:
            raise
        except Exception as error:
            raise MigrationError(f"{args.path}: {error}") from None
        self.total = self._from.count()
        self.distance = {"l2": "Euclid", "ip": "Dot", "cosine": "Cosine"}.get(self._space())
        self._document = args.document_field
        first = self._from.get(limit=1, include=["embeddings"])["embeddings"]
        self.dim = len(first[0]) if first is not None and len(first) else None

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--from-collection", metavar="NAME", help="collection to copy [default: the only one]")
        parser.add_argument("--document-field", default="document", metavar="FIELD", help="payload field of the documents [default: document]")

    def _space(self) -> str:
        settings = getattr(self._from, "configuration_json", None) or {}
        for kind in ("hnsw", "spann"):
            if isinstance(settings.get(kind), dict) and settings[kind].get("space"):
                return str(settings[kind]["space"])
        return str((self._from.metadata or {}).get("hnsw:space", "l2"))

    def rows(self, size: int) -> Iterator[Rows]:
        done = 0
        while True:
            page = self._from.get(limit=size, offset=done, include=["embeddings", "documents", "metadatas"])
            ids = page["ids"]
            if not ids:
                return
            done += len(ids)
            payload = [self._payload(*each) for each in zip(ids, page["metadatas"], page["documents"])]
            yield Rows(list(ids), {"": np.asarray(page["embeddings"], dtype=np.float32)}, payload)

    def _payload(self, id: str, metadata: Any, document: str | None) -> dict[str, Any]:
        payload = dict(metadata or {})
        if document is not None:
            if self._document in payload:
                raise MigrationError(f"row {id!r}: its metadata have {self._document!r} already; --document-field names another field for the documents")
            payload[self._document] = document
        return payload


class Lance:
    """A table of LanceDB. Lists of floats of a fixed length are vectors, all other columns payload."""

    def __init__(self, args: argparse.Namespace):
        lancedb = needs("lancedb", "lancedb")
        path = args.path.rstrip("/")
        given = args.from_collection
        if path.endswith(".lance") and given is None:
            path, given = (str(Path(path).parent), Path(path).name[: -len(".lance")])
        if "://" not in path and not Path(path).is_dir():
            raise MigrationError(f"{path} isn't a directory")
        try:
            connection = lancedb.connect(path)
            names = list(_table_names(connection))
            self._table = connection.open_table(_chosen("table", given, names))
        except MigrationError:
            raise
        except Exception as error:
            raise MigrationError(f"{args.path}: {error}") from None
        self._pa = needs("pyarrow", "pyarrow")
        self.total = self._table.count_rows()
        schema = self._table.schema
        wanted = args.vector_field or [column.name for column in schema if self._is_vector(column.type)]
        missing = [name for name in wanted if name not in schema.names]
        if missing:
            raise MigrationError(f"there is no column {missing[0]!r}; there are: {', '.join(schema.names)}")
        self._vectors = {"" if len(wanted) == 1 else name: name for name in wanted}
        self._without = set(args.without)
        self._id = args.id_field or ("id" if "id" in schema.names else None)
        if self._id is not None and self._id not in schema.names:
            raise MigrationError(f"there is no column {self._id!r}; there are: {', '.join(schema.names)}")
        widths = [schema.field(name).type.list_size for name in wanted if self._is_vector(schema.field(name).type)]
        self.dim, self.distance = sum(widths) or None, None

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--from-collection", metavar="NAME", help="table to copy [default: the only one]")
        parser.add_argument("--id-field", metavar="COLUMN", help="column of the ids [default: `id` where there is one, else the rows' numbers]")
        parser.add_argument("--vector-field", action="append", metavar="COLUMN", help="column of vectors, may be given several times [default: all of them]")
        parser.add_argument("--without", action="append", default=[], metavar="COLUMN", help="leave a column out; may be given several times")

    def _is_vector(self, kind: Any) -> bool:
        return self._pa.types.is_fixed_size_list(kind) and self._pa.types.is_floating(kind.value_type)

    def rows(self, size: int) -> Iterator[Rows]:
        first = 0
        for batch in _batches(self._table, size):
            # A batch may be larger than it was asked for.
            for start in range(0, batch.num_rows, size):
                some = batch.slice(start, size)
                yield self._rows(some, first)
                first += some.num_rows

    def _rows(self, batch: Any, first: int) -> Rows:
        columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
        vectors = {name: self._dense(column, columns[column]) for name, column in self._vectors.items()}
        ids = columns[self._id].to_pylist() if self._id else list(range(first, first + batch.num_rows))
        kept = {name: column.to_pylist() for name, column in columns.items() if name not in {self._id, *self._vectors.values(), *self._without}}
        payload = [{name: plain(column[at]) for name, column in kept.items() if column[at] is not None} for at in range(batch.num_rows)]
        return Rows(ids, vectors, payload)

    def _dense(self, name: str, column: Any) -> Any:
        if column.null_count:
            return [None if row is None else np.asarray(row, dtype=np.float32) for row in column.to_pylist()]
        if self._is_vector(column.type):
            return np.asarray(column.flatten(), dtype=np.float32).reshape(len(column), column.type.list_size)
        rows = column.to_pylist()
        try:
            return np.asarray(rows, dtype=np.float32)
        except (TypeError, ValueError):
            raise MigrationError(f"column {name!r} has the type {column.type}: not vectors of one dimension") from None


def _table_names(connection: Any) -> Iterator[str]:
    """All names, page by page; older releases have no pages of `list_tables`."""
    last = None
    while True:
        if hasattr(connection, "list_tables"):
            page = connection.list_tables(page_token=last, limit=100)
            names, last = list(page.tables), page.page_token
        else:
            names = list(connection.table_names(page_token=last, limit=100))
            last = names[-1] if len(names) == 100 else None
        yield from names
        if not last:
            return


def _batches(table: Any, size: int) -> Iterator[Any]:
    """Of all rows: through the dataset below, where its package is there, else as an answer of the database."""
    try:
        dataset = table.to_lance()
    except (ImportError, NotImplementedError):
        yield from table.search().limit(table.count_rows()).to_batches(batch_size=size)
        return
    yield from dataset.to_batches(batch_size=size)
