"""Random instances of typed headers and bodies, within the limits of their number types."""

from __future__ import annotations

import enum
import types
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

TEXT = st.text(min_size=1, max_size=8)
"""Not empty: the compact header form turns empty texts into absent ones."""


def instances(kind: type[Any], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Structs of ``kind``; ``fixed`` gives the values of some fields."""
    values = {field.name: _values(field.type) for field in msgspec.structs.fields(kind) if field.name not in fixed}
    return st.builds(kind, **values, **fixed)


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    arguments = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is types.UnionType or origin is Union:
            return st.one_of([_values(argument) for argument in arguments])
        case origin if origin is Annotated:
            limits: msgspec.Meta = arguments[1]
            return st.integers(limits.ge, limits.le)  # type: ignore[arg-type]
        case origin if origin is list:
            return st.lists(_values(arguments[0]), max_size=3)
        case origin if origin is dict:
            return st.dictionaries(_values(arguments[0]), _values(arguments[1]), max_size=3)
    if annotation is type(None):
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(-(2**31), 2**31 - 1)
    if annotation is object:
        return st.booleans() | TEXT
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return st.sampled_from(annotation)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return instances(annotation)
    return TEXT
