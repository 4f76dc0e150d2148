"""Filters: the API's form, and a shorthand for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import _ramlet
from .errors import BadInputError

_RANGE = {"gt", "gte", "lt", "lte"}


def where(**fields: Any) -> dict[str, Any]:
    """A filter of fields that must all hold.

    | value | holds where the field |
    |---|---|
    | a str, int or bool | is that, or has it among its values |
    | a list, tuple or set | is one of them |
    | a dict of `gt`, `gte`, `lt`, `lte` | lies within; numbers, or dates |
    | a float | is that |
    | None | is missing, null or empty |
    | any other dict | the condition of the API: `{"geo_radius": ...}`, `{"match": {"text": ...}}` |

    >>> where(lang="en", year={"gte": 2000})
    {'must': [{'key': 'lang', 'match': {'value': 'en'}}, {'key': 'year', 'range': {'gte': 2000}}]}
    """
    return {"must": [_condition(key, value) for key, value in fields.items()]}


def _condition(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {"is_empty": {"key": key}}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, (str, bool, int)):
        return {"key": key, "match": {"value": value}}
    if isinstance(value, float):
        return {"key": key, "range": {"gte": value, "lte": value}}
    if isinstance(value, Mapping):
        return _of_mapping(key, value)
    if isinstance(value, Iterable):
        values = list(value)
        if not all(isinstance(v, (str, int)) and not isinstance(v, bool) for v in values):
            raise BadInputError(f"where: {key}: a list takes str or int, not {values!r}")
        return {"key": key, "match": {"any": values}}
    raise BadInputError(f"where: {key}={value!r}: give a value, a list of values, or a dict of gt, gte, lt, lte")


def _of_mapping(key: str, value: Mapping[str, Any]) -> dict[str, Any]:
    if value and set(value) <= _RANGE:
        return {"key": key, "range": {k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in value.items()}}
    if set(value) & _RANGE:
        raise BadInputError(f"where: {key}: {sorted(set(value) - _RANGE)} in a range: only gt, gte, lt and lte are allowed")
    if not value:
        raise BadInputError(f"where: {key}={{}} has no condition")
    return {"key": key, **value}


def joined(filter: Any, fields: Mapping[str, Any] | None) -> Any:
    """Both kinds of filter combined in the API's form; None if there is neither."""
    if not fields:
        return filter
    if not isinstance(fields, Mapping):
        raise BadInputError(f"where={fields!r}: give a dict of fields, for example where={{'lang': 'en'}}; the API's form goes to filter=")
    short = where(**fields)
    if filter is None:
        return short
    return {"must": [filter, *short["must"]]}


def encoded(filter: Any, fields: Mapping[str, Any] | None) -> bytes | None:
    """The same as JSON."""
    both = joined(filter, fields)
    return None if both is None else _ramlet.dumps(both)
