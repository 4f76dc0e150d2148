"""Vector and text search inside Python, on disk, within the RAM that you set.

>>> import numpy as np, ramlet
>>> with ramlet.open("docs-data", memory="64MB") as db:           # doctest: +SKIP
...     docs = db.create("docs", dim=3)
...     docs.add(np.eye(3, dtype="float32"), ids=[1, 2, 3])
...     docs.search([1, 0, 0], limit=1).ids
array([1], dtype=uint64)
"""

from . import aio, errors
from ._collection import Collection
from ._database import Database, open, plan
from ._filters import where
from ._memory import size
from ._ramlet import __version__
from ._results import Group, Hits, Point
from .errors import (
    AlreadyExistsError,
    BadInputError,
    BudgetError,
    BusyError,
    ClosedError,
    CorruptError,
    FullError,
    LockedError,
    NotFoundError,
    RamletError,
    StorageError,
)

__all__ = [
    "AlreadyExistsError",
    "BadInputError",
    "BudgetError",
    "BusyError",
    "ClosedError",
    "Collection",
    "CorruptError",
    "Database",
    "FullError",
    "Group",
    "Hits",
    "LockedError",
    "NotFoundError",
    "Point",
    "RamletError",
    "StorageError",
    "__version__",
    "aio",
    "errors",
    "open",
    "plan",
    "size",
    "where",
]
