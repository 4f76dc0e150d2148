"""`python -m ramlet migrate`: copies what Chroma, LanceDB, FAISS, hnswlib and pgvector hold, read through their own packages.

A source hands out rows in portions; a target takes them. Neither is held in memory as a whole, but for the index files of FAISS and hnswlib, which
their packages load.
"""

from __future__ import annotations

from ._rows import MigrationError, Rows, Source
from ._run import Summary, copy, main

__all__ = ["MigrationError", "Rows", "Source", "Summary", "copy", "main"]
