"""A second reader of JSON for the bodies of the generator, by Python's own module: slow, and strict in its own way."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from tests.spark.hostile.values import Values

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ Tt][0-9]{2}:[0-9]{2}(:[0-9]{2})?(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)?"
)


class _Whole(str):
    """A number without point and exponent, as it is written."""


class _Real(str):
    """Another number."""


class _Wrong(ValueError):
    """The body is no event."""


def values_of(body: bytes) -> Values | None:
    """The values of a body; None if it is no event."""
    try:
        found = json.loads(
            body.decode(), object_pairs_hook=_once, parse_int=_Whole, parse_float=_Real, parse_constant=_refuse
        )
        if type(found) is not dict:
            return None
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair
        return Values(
            id=_text(found.get("id")), n=_integer(found.get("n")), price=_price(found.get("price")),
            micros=_micros(found.get("at")), note=_text(found.get("note")), kind=_text(found.get("kind")),
            code=_text(found.get("code")), ratio=_ratio(found.get("ratio")),
        )  # fmt: skip
    except (ValueError, RecursionError, OverflowError):
        return None


def _refuse(_: str) -> Any:
    raise _Wrong


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Wrong
    return dict(pairs)


def _text(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise _Wrong
    return cast("str | None", value)


def _integer(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is not _Whole or len(value) > 20 or not -(2**31) <= int(value) < 2**31:
        raise _Wrong
    return int(value)


def _price(value: Any) -> Decimal | None:
    if value is None:
        return None
    if type(value) not in (_Whole, _Real, str) or (type(value) is str and not _DECIMAL.fullmatch(value)):
        raise _Wrong
    digits = Decimal(str(value))
    if digits and (not -2 <= digits.adjusted() < 10 or digits != round(digits, 2)):
        raise _Wrong
    return digits


def _micros(value: Any) -> int | None:
    if value is None:
        return None
    match = _TIME.fullmatch(value) if type(value) is str else None
    if match is None:
        raise _Wrong
    fraction = match.group(2) or "."
    if fraction[7:].strip("0"):
        raise _Wrong
    time = datetime.fromisoformat(value.upper() if match.group(2) is None else value.upper().replace(
        fraction, fraction[:7].ljust(7, "0") if match.group(1) else fraction))  # fmt: skip
    time = time.replace(tzinfo=time.tzinfo or UTC)
    micros = (time - _EPOCH) // timedelta(microseconds=1)
    if not datetime.min.replace(tzinfo=UTC) <= _EPOCH + timedelta(microseconds=micros):
        raise _Wrong
    return micros


def _ratio(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (_Whole, _Real) or math.isinf(float(value)):
        raise _Wrong
    return float(value)
