"""For tests of programs that use a broker: ``LocalCluster``, a whole cluster inside the process of a test."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gantrymq.testing.local.at_rest import NotAtRest as NotAtRest
    from gantrymq.testing.local.cluster import LocalCluster as LocalCluster
    from gantrymq.testing.local.cluster import UnclosedClientWarning as UnclosedClientWarning
    from gantrymq.testing.local.reading import OpenTransaction as OpenTransaction

_HOMES = {
    "LocalCluster": "cluster",
    "OpenTransaction": "reading",
    "UnclosedClientWarning": "cluster",
    "NotAtRest": "at_rest",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: the pytest plugin imports this package in every run.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"gantrymq.testing.local.{_HOMES[name]}"), name)
