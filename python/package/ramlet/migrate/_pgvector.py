"""What PostgreSQL writes as text: `COPY .. TO`, or a dump of pg_dump, with columns of pgvector.

Source: the PostgreSQL manual, COPY, "Text Format"; the README of pgvector for `vector`, `halfvec` and `sparsevec`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from ._rows import MigrationError, Rows

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_COPY = re.compile(r"^COPY\s+(.+?)\s*\((.*)\)\s+FROM\s+stdin", re.IGNORECASE)
_CREATE = re.compile(r"^CREATE\s+(?:UNLOGGED\s+)?TABLE\s+(.+?)\s*\($", re.IGNORECASE)
_VECTORS = ("vector", "halfvec")


class Copied:
    """Rows of one table. Types of columns are those of the dump's `CREATE TABLE`, or of `--types`; else values are texts, but for vectors."""

    def __init__(self, args: argparse.Namespace):
        self._path, self._table = args.path, args.from_collection
        self._columns = args.columns.split(",") if args.columns else None
        self._types = dict(self._type(given) for given in args.types)
        self._id, self._wanted, self._without = args.id_field, args.vector_field, set(args.without)
        self._tables: set[str] = set()
        self.total, self.distance, self.dim = None, None, None
        self._line = 0

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--from-collection", metavar="TABLE", help="table of a dump to copy [default: the only one with vectors]")
        parser.add_argument("--columns", metavar="A,B,..", help="names of the columns, where the file has no COPY line")
        parser.add_argument("--types", action="append", default=[], metavar="COLUMN=TYPE", help="type of a column: text, int, float, bool, json, vector, sparsevec")
        parser.add_argument("--id-field", default="id", metavar="COLUMN", help="column of the ids [default: id]")
        parser.add_argument("--vector-field", action="append", metavar="COLUMN", help="column of vectors, may be given several times [default: all of them]")
        parser.add_argument("--without", action="append", default=[], metavar="COLUMN", help="leave a column out; may be given several times")

    @staticmethod
    def _type(given: str) -> tuple[str, str]:
        name, is_there, kind = given.partition("=")
        if not is_there or kind not in ("text", "int", "float", "bool", "json", "vector", "sparsevec"):
            raise MigrationError(f"--types {given}: COLUMN=TYPE, where TYPE is text, int, float, bool, json, vector or sparsevec")
        return name, kind

    def rows(self, size: int) -> Iterator[Rows]:
        found = False
        with self._open() as file:
            for columns, types, lines in self._parts(file):
                found = True
                yield from self._portions(columns, types, lines, size)
        if not found:
            known = ", ".join(sorted(self._tables)) or "none"
            raise MigrationError(f"{self._path} has no rows of {self._table or 'a table with vectors'}; its tables: {known}")

    def _open(self) -> BinaryIO:
        if self._path == "-":
            return sys.stdin.buffer
        try:
            return gzip.open(self._path, "rb") if self._path.endswith(".gz") else open(self._path, "rb")  # type: ignore[return-value]
        except OSError as error:
            raise MigrationError(str(error)) from None

    def _text(self, line: bytes) -> str:
        self._line += 1
        if self._line == 1 and line.startswith((b"PGDMP", b"PGCOPY")):
            what = "pg_dump -Fc" if line.startswith(b"PGDMP") else "COPY .. WITH BINARY"
            raise MigrationError(f"{self._path} was written by {what}: only text dumps are read; write one with pg_dump without -Fc, or with pg_restore -f - {self._path}")
        try:
            return line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise MigrationError(f"{self._path}, line {self._line}: not UTF-8; dump with --encoding=UTF8") from None

    def _parts(self, file: BinaryIO) -> Iterator[tuple[list[str], dict[str, str], Iterator[str]]]:
        """Columns, types and lines of rows of each COPY that is wanted: of a bare file the whole of it."""
        if self._columns is not None:
            yield self._columns, self._types, (self._text(line) for line in file)
            return
        made: dict[str, dict[str, str]] = {}
        taken: str | None = None
        for line in file:
            text = self._text(line)
            created, copied = _CREATE.match(text), _COPY.match(text)
            if created:
                made[_name(created[1])] = self._created(file)
            elif copied:
                table, columns = _name(copied[1]), [_unquoted(column) for column in _split(copied[2])]
                self._tables.add(table)
                types = {**made.get(table, {}), **self._types}
                body = self._body(file)
                chosen = table in (self._table, f"public.{self._table}") if self._table else any(types.get(c) in (*_VECTORS, "sparsevec") for c in columns)
                if not chosen:
                    for _ in body:
                        pass
                    continue
                if taken not in (None, table):
                    raise MigrationError(f"both {taken} and {table} have vectors: choose one with --from-collection TABLE")
                taken = table
                yield columns, types, body
            elif self._line == 1 and "\t" in text:
                raise MigrationError(f"{self._path} has no COPY line with the column names: give them with --columns id,embedding,..")

    def _created(self, file: BinaryIO) -> dict[str, str]:
        """Types of the columns of a CREATE TABLE, up to its end."""
        types = {}
        for line in file:
            text = self._text(line).strip()
            if text.startswith(")"):
                break
            column = re.match(r'("(?:[^"]|"")+"|\S+)\s+(\S+)', text)
            if column:
                types[_unquoted(column[1])] = _kind(column[2])
        return types

    def _body(self, file: BinaryIO) -> Iterator[str]:
        for line in file:
            text = self._text(line)
            if text == "\\.":
                return
            yield text
        raise MigrationError(f"{self._path} ends within a table, after line {self._line}: it is truncated")

    def _portions(self, columns: list[str], types: dict[str, str], lines: Iterator[str], size: int) -> Iterator[Rows]:
        if self._id not in columns:
            raise MigrationError(f"there is no column {self._id!r}; there are: {', '.join(columns)}. name the column of ids with --id-field")
        rows: list[list[str | None]] = []
        for text in lines:
            if text == "\\.":
                continue
            cells = [None if cell == "\\N" else cell for cell in text.split("\t")]
            if len(cells) != len(columns):
                raise MigrationError(f"{self._path}, line {self._line}: {len(cells)} columns in place of {len(columns)}")
            rows.append(cells)
            if len(rows) == size:
                yield self._rows(columns, types, rows)
                rows = []
        if rows:
            yield self._rows(columns, types, rows)

    def _rows(self, columns: list[str], types: dict[str, str], rows: list[list[str | None]]) -> Rows:
        at = {name: place for place, name in enumerate(columns)}
        if self._wanted is None:
            # By their type, or as the first rows look.
            looks = {name: next((row[place] for row in rows if row[place] is not None), "") or "" for name, place in at.items()}
            self._wanted = [name for name in columns if types.get(name) in (*_VECTORS, "sparsevec") or name not in types and re.match(r"\[[-0-9.]", looks[name])]
            if not self._wanted:
                raise MigrationError(f"{self._path}: no column looks like vectors; name it with --vector-field. There are: {', '.join(columns)}")
        missing = [name for name in self._wanted if name not in at]
        if missing:
            raise MigrationError(f"there is no column {missing[0]!r}; there are: {', '.join(columns)}")
        dense = [name for name in self._wanted if types.get(name) != "sparsevec"]
        first = self._line - len(rows) + 1
        vectors = {"" if len(dense) == 1 else name: self._dense(name, [row[at[name]] for row in rows], first) for name in dense}
        sparse = {name: [self._sparse(name, row[at[name]]) for row in rows] for name in self._wanted if name not in dense}
        kept = [name for name in columns if name not in {self._id, *self._wanted, *self._without}]
        payload = [
            {name: value for name in kept if (cell := row[at[name]]) is not None and (value := self._value(name, types.get(name, "text"), cell)) is not None}
            for row in rows
        ]
        ids = [self._own(row[at[self._id]]) for row in rows]
        return Rows(ids, vectors, payload, sparse)

    def _own(self, cell: str | None) -> Any:
        if cell is None:
            raise MigrationError(f"{self._path}, up to line {self._line}: a row has no {self._id!r}")
        return int(cell) if cell.isascii() and cell.isdigit() else _unescaped(cell)

    def _dense(self, name: str, cells: list[str | None], first: int) -> Any:
        """All rows at once where they are all there: numpy reads a line of numbers faster than a loop does."""
        parsed: list[Any] = []
        for row, cell in enumerate(cells):
            try:
                if cell is not None and not (cell.startswith("[") and cell.endswith("]")):
                    raise ValueError(cell)
                parsed.append(None if cell is None else np.array(cell[1:-1].split(","), dtype=np.float32))
            except ValueError:
                raise MigrationError(f"{self._path}, line {first + row}: {name} isn't a vector, [1,2,..]: {cell!r:.60}") from None
        widths = {len(row) for row in parsed if row is not None}
        if len(widths) > 1:
            raise MigrationError(f"{self._path}, up to line {self._line}: {name} has vectors of {', '.join(map(str, sorted(widths)))} dimensions")
        return np.stack(parsed) if parsed and all(row is not None for row in parsed) else parsed

    def _sparse(self, name: str, cell: str | None) -> Any:
        """`{1:0.5,3:2}/5`: indices from 1 on, which are from 0 on here."""
        if cell is None:
            return None
        found = re.fullmatch(r"\{(.*)\}/\d+", cell)
        try:
            if found is None:
                raise ValueError(cell)
            pairs = [pair.split(":") for pair in found[1].split(",") if pair]
            return {"indices": [int(index) - 1 for index, _ in pairs], "values": [float(value) for _, value in pairs]}
        except ValueError:
            raise MigrationError(f"{self._path}, up to line {self._line}: {name} isn't a sparse vector, {{1:0.5}}/3: {cell!r:.60}") from None

    def _value(self, name: str, kind: str, cell: str) -> Any:
        text = _unescaped(cell)
        if kind.endswith("[]"):
            cells = _elements(text)
            return text if cells is None else [None if one is None else self._plain(name, kind[:-2], one) for one in cells]
        return self._plain(name, kind, text)

    def _plain(self, name: str, kind: str, text: str) -> Any:
        try:
            if kind == "int":
                return int(text)
            if kind == "float":
                number = float(text)
                return number if np.isfinite(number) else None
            if kind == "bool":
                return {"t": True, "f": False, "true": True, "false": False}[text]
            return json.loads(text) if kind == "json" else text
        except (ValueError, KeyError):
            raise MigrationError(f"{self._path}, up to line {self._line}: {name} is not a {kind}: {text!r:.60}; --types {name}=text keeps it as text") from None


def _unescaped(cell: str) -> str:
    if "\\" not in cell:
        return cell

    def one(found: re.Match[str]) -> str:
        given = found[1]
        if given[0] == "x" and len(given) > 1:
            return chr(int(given[1:], 16))
        if given[0] in "01234567":
            return chr(int(given, 8) & 0xFF)
        return _ESCAPES.get(given, given)

    return _ESCAPE.sub(one, cell)


_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)


def _elements(text: str) -> list[str | None] | None:
    """Of an array of one dimension: `{a,"b, c",NULL}`. None: it is no such array."""
    if not text.startswith("{") or not text.endswith("}"):
        return None
    cells, at, body = [], 0, text[1:-1]
    while at < len(body):
        found = _ELEMENT.match(body, at)
        if found is None or body[found.end() : found.end() + 1] not in ("", ","):
            return None
        quoted, bare = found.groups()
        cells.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else None if bare == "NULL" else bare)
        at = found.end() + 1
    return cells


def _kind(type: str) -> str:
    """A column's type in our words, by PostgreSQL's, which may have a schema before it and a size behind it."""
    if type.rstrip(",").endswith("[]"):
        kind = _kind(type.rstrip(",")[:-2])
        return "text" if kind in (*_VECTORS, "sparsevec") or kind.endswith("[]") else f"{kind}[]"
    name = re.split(r"[\s(,\[]", type)[0].split(".")[-1].lower()
    if name in (*_VECTORS, "sparsevec"):
        return name
    if name in ("smallint", "integer", "bigint", "int", "int2", "int4", "int8", "serial", "bigserial"):
        return "int"
    if name in ("real", "double", "numeric", "decimal", "float4", "float8"):
        return "float"
    return {"boolean": "bool", "bool": "bool", "json": "json", "jsonb": "json"}.get(name, "text")


def _split(columns: str) -> list[str]:
    return [column.strip() for column in re.findall(r'\s*(?:"(?:[^"]|"")*"|[^,]+)', columns)]


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') and name.endswith('"') else name


def _name(table: str) -> str:
    return ".".join(_unquoted(part) for part in re.findall(r'"(?:[^"]|"")*"|[^.]+', table.strip()))
