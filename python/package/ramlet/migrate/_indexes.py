"""Index files of FAISS and hnswlib. Both packages load a file into RAM as a whole; what is copied goes on in portions."""

from __future__ import annotations

import argparse
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._rows import MigrationError, Rows, needs


def _payload_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--payload", metavar="FILE", help="JSON lines: the payload of each row, in the order of the rows")


class _Lines:
    """The payload of each row, from JSON lines; empty without a file."""

    def __init__(self, path: str | None):
        self._path = path
        try:
            self._file = open(path, encoding="utf-8") if path else None
        except OSError as error:
            raise MigrationError(str(error)) from None
        self._line = 0

    def next(self, count: int) -> list[dict[str, Any]]:
        if self._file is None:
            return [{} for _ in range(count)]
        taken = []
        for _ in range(count):
            self._line += 1
            line = self._file.readline()
            if not line:
                raise MigrationError(f"{self._path} ends after {self._line - 1} lines, and there are more rows")
            try:
                row = json.loads(line)
            except ValueError as error:
                raise MigrationError(f"{self._path}, line {self._line}: {error}") from None
            if not isinstance(row, dict):
                raise MigrationError(f"{self._path}, line {self._line}: an object is a payload, not {line.strip()[:40]!r}")
            taken.append(row)
        return taken


def _file(path: str) -> str:
    if not Path(path).is_file():
        raise MigrationError(f"{path} isn't a file")
    return path


class Faiss:
    """An index of FAISS. Those that keep vectors as they are copy them; of those that keep codes only what the codes say can be had."""

    def __init__(self, args: argparse.Namespace):
        self._faiss = needs("faiss-cpu", "faiss")
        try:
            # What it is made of is freed with it, whoever has a part.
            self._read = self._faiss.read_index(_file(args.path))
            whole = self._faiss.downcast_index(self._read)
        except RuntimeError as error:
            raise MigrationError(f"{args.path} isn't an index of FAISS: {error}") from None
        self._numbers = None
        index = whole
        if hasattr(index, "id_map"):
            self._numbers = self._faiss.vector_to_array(index.id_map)
            index = self._faiss.downcast_index(index.index)
        self._index = index
        self.total, self.dim = int(index.ntotal), int(index.d)
        self.distance = {self._faiss.METRIC_L2: "Euclid", self._faiss.METRIC_INNER_PRODUCT: "Dot", self._faiss.METRIC_L1: "Manhattan"}.get(whole.metric_type)
        kind = type(index).__name__
        exact = self._exact(index)
        if not exact and not args.approximate:
            raise MigrationError(
                f"{args.path} is an {kind}: it holds codes, from which vectors can only be had about as they were. Copy them from where they came, or say --approximate"
            )
        self._payload = args.payload

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        _payload_argument(parser)
        parser.add_argument("--approximate", action="store_true", help="of an index that holds codes copy what the codes say")

    def _exact(self, index: Any) -> bool:
        """Whether vectors are kept as they are."""
        kind = type(index).__name__
        if kind.startswith("IndexRefineFlat") or kind == "IndexRefine":
            return self._exact(self._faiss.downcast_index(index.refine_index))
        if kind.startswith(("IndexHNSW", "IndexNSG")):
            return self._exact(self._faiss.downcast_index(index.storage))
        return kind.startswith("IndexFlat") or kind in ("IndexIVFFlat", "IndexIVFFlatDedup")

    def rows(self, size: int) -> Iterator[Rows]:
        payload = _Lines(self._payload)
        kept = self._faiss.downcast_index(self._index.refine_index) if hasattr(self._index, "refine_index") else self._index
        for ids, vectors in self._listed(kept, size) if hasattr(kept, "invlists") else self._numbered(kept, size):
            if self._numbers is not None:
                ids = self._numbers[ids]
            if len(ids) and ids.min() < 0:
                raise MigrationError(f"the id {ids.min()} is below 0: ids are whole numbers from 0 on")
            yield Rows(ids.tolist(), {"": vectors}, payload.next(len(ids)))

    def _numbered(self, index: Any, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, self.total, size):
            count = min(size, self.total - first)
            yield np.arange(first, first + count, dtype=np.int64), self._reconstructed(lambda: index.reconstruct_n(first, count))

    def _listed(self, index: Any, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of an inverted file: its rows have ids of their own, list by list; they go out in the order of the ids."""
        faiss, lists = self._faiss, index.invlists
        ids = [faiss.rev_swig_ptr(lists.get_ids(each), lists.list_size(each)).copy() for each in range(index.nlist) if lists.list_size(each)]
        every = np.sort(np.concatenate(ids)) if ids else np.empty(0, np.int64)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        for first in range(0, len(every), size):
            some = every[first : first + size]
            yield some, self._reconstructed(lambda some=some: index.reconstruct_batch(some))

    def _reconstructed(self, make: Any) -> np.ndarray:
        try:
            return np.ascontiguousarray(make(), dtype=np.float32)
        except RuntimeError as error:
            raise MigrationError(f"an {type(self._index).__name__} doesn't return its vectors: {error}") from None


class Hnswlib:
    """An index file of hnswlib. It says how wide its rows are, but not how they are compared."""

    HEADER = struct.Struct("<6Q")
    """Of a file: where level 0 begins, rows that fit, rows, bytes of a row, where its label is, where its vector is."""

    def __init__(self, args: argparse.Namespace):
        hnswlib = needs("hnswlib", "hnswlib")
        with open(_file(args.path), "rb") as file:
            head = file.read(self.HEADER.size)
        if len(head) < self.HEADER.size:
            raise MigrationError(f"{args.path} is too short for an index of hnswlib")
        level_0, most, count, row, label, vector = self.HEADER.unpack(head)
        if level_0 != 0 or not vector < label < row or label - vector > 4 << 20 or (label - vector) % 4 or count > most or count * row > os.path.getsize(args.path):
            raise MigrationError(f"{args.path} isn't an index of hnswlib")
        self.dim = (label - vector) // 4
        self._index = hnswlib.Index(space="l2", dim=self.dim)
        try:
            self._index.load_index(args.path)
        except RuntimeError as error:
            raise MigrationError(f"{args.path}: {error}") from None
        # Where it was cosine the rows have length 1: any of the distances that --distance may name orders them alike, but for the scores.
        self.distance = {"l2": "Euclid", "ip": "Dot", "cosine": "Cosine"}[args.space]
        self._labels = sorted(self._index.get_ids_list())
        self.total, self._payload = len(self._labels), args.payload

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--space", choices=["l2", "ip", "cosine"], required=True, help="how the index compares, which its file doesn't say")
        _payload_argument(parser)

    def rows(self, size: int) -> Iterator[Rows]:
        payload = _Lines(self._payload)
        for first in range(0, self.total, size):
            some = self._labels[first : first + size]
            beside = payload.next(len(some))
            try:
                vectors = self._items(some)
            except RuntimeError:
                # A deleted row is in the list still, and can't be had.
                there = [at for at, label in enumerate(some) if self._has(label)]
                some, beside = [some[at] for at in there], [beside[at] for at in there]
                if not some:
                    continue
                vectors = self._items(some)
            yield Rows([int(label) for label in some], {"": vectors}, beside)

    def _items(self, labels: list[int]) -> np.ndarray:
        return np.ascontiguousarray(self._index.get_items(labels), dtype=np.float32)

    def _has(self, label: int) -> bool:
        try:
            self._index.get_items([label])
        except RuntimeError:
            return False
        return True
