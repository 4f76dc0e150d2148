"""What searches and scrolls return."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np


@dataclass(frozen=True)
class Point:
    """A found point. `id`: an int, or a UUID as text. Parts that weren't requested are None."""

    id: int | str
    score: float | None = None
    payload: dict[str, Any] | None = None
    vector: Any = None
    version: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """Other fields of the API: `order_value`, `highlights`, `shard_key`."""

    @classmethod
    def of(cls, told: dict[str, Any]) -> Point:
        known = ("id", "score", "payload", "vector", "version")
        extra = {name: value for name, value in told.items() if name not in known}
        return cls(told["id"], told.get("score"), told.get("payload"), told.get("vector"), told.get("version"), extra)


@dataclass(frozen=True)
class Group:
    """Points with the same value of the field that they are grouped by."""

    id: int | str
    points: list[Point]
    lookup: Point | None = None


class Hits(Sequence):
    """Results of a search as arrays; iterating gives points, or for several queries the hits of each.

    One query: `ids` and `scores` have the shape (hits,). n queries: (n, limit), and what is beyond `counts` of a row is 2**64 - 1 (None among
    UUIDs) and NaN. `ids` are uint64; where there are UUIDs, objects. `payloads` and `vectors` are lists in the same order, or None.
    """

    __slots__ = ("ids", "scores", "counts", "_payloads", "_vectors", "_single")

    ids: np.ndarray
    scores: np.ndarray
    counts: np.ndarray

    def __init__(self, found: tuple, rows: int, limit: int, single: bool):
        ids, scores, counts, payloads, vectors = found
        if not isinstance(ids, np.ndarray):
            objects = np.empty(len(ids), dtype=object)
            objects[:] = ids
            ids = objects
        self._single = single
        self.counts = counts
        end = int(counts[0]) if single else rows * limit
        shape = (end,) if single else (rows, limit)
        self.ids = ids[:end].reshape(shape)
        self.scores = scores[:end].reshape(shape)
        self._payloads = None if payloads is None else _rows(payloads[:end], single, limit)
        self._vectors = None if vectors is None else _rows([_bare(v) for v in vectors[:end]], single, limit)

    @property
    def payloads(self) -> Any:
        """Payloads as dicts: a list for one query, a list of lists for several; None if they weren't requested."""
        if self._payloads is None:
            return None
        return [_payload(p) for p in self._payloads] if self._single else [[_payload(p) for p in row] for row in self._payloads]

    @property
    def vectors(self) -> Any:
        """Vectors in the same order: an array for each hit, or a dict if the collection names them."""
        return self._vectors

    def _of_row(self, row: int) -> Hits:
        count = int(self.counts[row])
        part = Hits.__new__(Hits)
        part._single = True
        part.counts = self.counts[row : row + 1]
        part.ids, part.scores = self.ids[row, :count], self.scores[row, :count]
        part._payloads = None if self._payloads is None else self._payloads[row][:count]
        part._vectors = None if self._vectors is None else self._vectors[row][:count]
        return part

    def _point(self, at: int) -> Point:
        id = self.ids[at]
        return Point(
            id=id if isinstance(id, str) else int(id),
            score=float(self.scores[at]),
            payload=None if self._payloads is None else _payload(self._payloads[at]),
            vector=None if self._vectors is None else self._vectors[at],
        )

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Any: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        return self._point(at) if self._single else self._of_row(at)

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __repr__(self) -> str:
        if self._single:
            return f"Hits({len(self)}: {list(self)!r})"
        return f"Hits({len(self)} queries x {self.ids.shape[1]})"


def _rows(flat: list, single: bool, limit: int) -> list:
    return flat if single else [flat[at : at + limit] for at in range(0, len(flat), limit)]


def _payload(text: bytes | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text or b"{}")


def _bare(vectors: dict[str, Any] | None) -> Any:
    """Without the name of the unnamed vector."""
    if vectors is not None and set(vectors) == {""}:
        return vectors[""]
    return vectors
