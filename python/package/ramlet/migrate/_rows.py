"""What a source hands out, and how its rows become points."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


class MigrationError(Exception):
    """What can't be copied, and what to do about it."""


@dataclass
class Rows:
    """Some rows. `vectors`: arrays of float32 by name, a row each, or lists of such rows and None; `sparse`: lists of sparse vectors in the API's form, or None."""

    ids: list[Any]
    vectors: dict[str, Any]
    payload: list[dict[str, Any]]
    sparse: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


class Source(Protocol):
    """Where rows come from. `total`: how many there are, `dim`: numbers of all vectors of a row, where that is known; `distance`: as the source compares
    them, where it says so."""

    total: int | None
    dim: int | None
    distance: str | None

    def rows(self, size: int) -> Iterator[Rows]:
        """All rows, in the same order each time, at most `size` at once."""
        ...


def point_id(given: Any, payload: dict[str, Any]) -> int | str:
    """Whole numbers and UUIDs stay. Of any other id the point gets the UUID (version 5, OID namespace), as `ramlet import --ids hash` makes it; the id stays in the
    payload as `id`."""
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and 0 <= int(given) < 1 << 64:
        return int(given)
    if isinstance(given, uuid.UUID):
        return str(given)
    text = str(given)
    try:
        return str(uuid.UUID(text))
    except ValueError:
        kept = payload.setdefault("id", given)
        if kept != given:
            raise MigrationError(
                f"the id {text!r} isn't a number nor a UUID and stays in the payload as `id`, but the row has another `id` there, {kept!r}: rename that field"
            ) from None
        return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def plain(value: Any) -> Any:
    """As JSON can say it."""
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, uuid.UUID):
        return str(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bytes):
        raise MigrationError("a payload can't hold bytes: leave that column out with --without")
    if isinstance(value, float) and value != value:
        return None
    return value


def needs(package: str, name: str) -> Any:
    """The module of a package that a source is read through."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MigrationError(f"reading this needs the package {package}: pip install {package} ({error})") from None
