"""What can go wrong. All are `RamletError`; each is also the built-in exception that it is nearest to."""

from __future__ import annotations

import json


class RamletError(Exception):
    """Any failure of Ramlet. The text says what, where, and what to do."""


class BadInputError(RamletError, ValueError):
    """The request makes no sense: a wrong dimension, NaN, an unknown setting."""


class NotFoundError(RamletError, LookupError):
    """A collection, point, vector or snapshot that isn't there."""


class AlreadyExistsError(RamletError):
    """A collection of the name is there already."""


class BudgetError(RamletError, MemoryError):
    """The memory budget doesn't do.

    `needed_bytes` and `available_bytes` are the two numbers, or None where they aren't known. `is_final`: asking again is in vain, only a larger
    budget or a smaller request helps.
    """

    def __init__(self, message: str, needed_bytes: int | None = None, available_bytes: int | None = None, is_final: bool = False):
        super().__init__(message)
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.is_final = is_final


class BusyError(RamletError):
    """Too much waits already; ask again."""


class LockedError(RamletError):
    """Another process, or another handle of this one, has the directory open."""


class ClosedError(RamletError):
    """The database was closed, or belongs to the process that this one was forked from."""


class FullError(RamletError, OSError):
    """The disk, or the process's file descriptors, are used up."""


class StorageError(RamletError, OSError):
    """Reading or writing failed. Writes to the collection may have stopped until it is opened again; the text says so."""


class CorruptError(StorageError):
    """Bytes on disk aren't what was written."""


class RequestTimeoutError(RamletError, TimeoutError):
    """It took longer than a request may take."""


_CLASSES: dict[str, type[RamletError]] = {
    "BadInput": BadInputError,
    "NotFound": NotFoundError,
    "AlreadyExists": AlreadyExistsError,
    "Busy": BusyError,
    "Locked": LockedError,
    "Closed": ClosedError,
    "Full": FullError,
    "Storage": StorageError,
    "CollectionClosed": StorageError,
    "WritesStopped": StorageError,
    "Corrupt": CorruptError,
    "Timeout": RequestTimeoutError,
}


def make(kind: str, message: str, numbers: tuple[int, int] | None = None) -> RamletError:
    """The exception for a kind of failure of the engine."""
    if kind in ("OverBudget", "TooLarge", "MemoryFull"):
        needed, available = numbers or (None, None)
        return BudgetError(message, needed, available, is_final=kind != "OverBudget")
    return _CLASSES[kind](message)


def of_response(status: int, body: bytes, numbers: tuple[int, int] | None) -> RamletError:
    """The exception for a refusal by the API."""
    try:
        message = json.loads(body)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace") or f"status {status}"
    return make(_kind(status, message), message, numbers)


def _kind(status: int, message: str) -> str:
    if status == 429:
        return "OverBudget" if message.startswith("Memory budget") else "Busy"
    if status == 507 and message.startswith("Memory full"):
        return "MemoryFull"
    if status == 503:
        return "Closed" if message.startswith("Shutting down") else "Storage"
    if status == 500 and "corrupt data" in message:
        return "Corrupt"
    known = {404: "NotFound", 408: "Timeout", 409: "AlreadyExists", 413: "TooLarge", 507: "Full"}
    return known.get(status, "BadInput" if 400 <= status < 500 else "Storage")
