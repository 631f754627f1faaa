"""Which lines of a group are cut, cut in one direction, or slow: each shape is a row."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.kill.group import CLIENTS, ETCD, LEFT, NAMES
from tests.kill.lines import Place, Way, both

Ways: TypeAlias = tuple[Way, ...]


def lines(places: tuple[Place, ...], others: tuple[Place, ...]) -> Ways:
    """Both directions between each of these and each of the others."""
    return tuple(way for one in places for other in others for way in both(one, other))


def there(places: tuple[Place, ...], others: tuple[Place, ...]) -> Ways:
    """From each of these to each of the others."""
    return tuple((one, other) for one in places for other in others)


@dataclass(frozen=True, slots=True)
class Shape:
    """``ways``: of a primary and its replicas. ``elects``: whether another primary takes its place meanwhile.
    ``goes_on``: whether ``CLIENTS`` can reach a primary meanwhile that can be one."""

    name: str
    ways: Callable[[Place, tuple[Place, ...]], Ways]
    elects: bool = False
    goes_on: bool = True


CUT: Final = (
    Shape("primary from etcd", lambda p, r: lines((p,), (ETCD,))),
    Shape("primary from one replica", lambda p, r: lines((p,), r[:1])),
    Shape("primary from its replicas", lambda p, r: lines((p,), r), elects=True),
    Shape("primary from replicas and etcd", lambda p, r: lines((p,), (*r, ETCD)), elects=True),
    Shape("primary from everybody", lambda p, r: lines((p,), (*r, ETCD, NAMES, CLIENTS, LEFT)), elects=True),
    Shape("primary with some clients from everybody",
          lambda p, r: lines((p, LEFT), (*r, ETCD, NAMES)) + lines((p,), (CLIENTS,)), elects=True),
    Shape("primary with all clients from everybody", lambda p, r: lines((p, LEFT, CLIENTS), (*r, ETCD)), elects=True,
          goes_on=False),
    Shape("a replica from everybody", lambda p, r: lines(r[:1], (p, *r[1:], ETCD, NAMES, CLIENTS, LEFT))),
    Shape("replicas from etcd", lambda p, r: lines(r, (ETCD,))),
    Shape("everybody from etcd", lambda p, r: lines((p, *r), (ETCD,))),
)  # fmt: skip
"""Nothing arrives in either direction."""

HALF: Final = (
    Shape("primary to etcd", lambda p, r: there((p,), (ETCD,))),
    Shape("etcd to primary", lambda p, r: there((ETCD,), (p,))),
    Shape("primary to its replicas", lambda p, r: there((p,), r), elects=True),
    Shape("replicas to primary", lambda p, r: there(r, (p,)), elects=True),
    Shape("primary to one replica", lambda p, r: there((p,), r[:1])),
    Shape("one replica to primary", lambda p, r: there(r[:1], (p,))),
    Shape("primary to everybody", lambda p, r: there((p,), (*r, ETCD, NAMES, CLIENTS, LEFT)), elects=True),
    Shape("everybody to primary", lambda p, r: there((*r, ETCD, NAMES, CLIENTS, LEFT), (p,)), elects=True),
    Shape("etcd to replicas", lambda p, r: there((ETCD,), r)),
)
"""Nothing arrives in one direction."""

DELAY: Final = (
    Shape("between brokers", lambda p, r: lines((p,), r) + lines(r[:1], r[1:])),
    Shape("brokers to etcd", lambda p, r: lines((p, *r), (ETCD,))),
    Shape("primary to everybody", lambda p, r: lines((p,), (*r, ETCD, NAMES, CLIENTS, LEFT))),
    Shape("primary to one replica", lambda p, r: there((p,), r[:1])),
    Shape(
        "everywhere", lambda p, r: lines((p, *r), (ETCD, NAMES, CLIENTS, LEFT)) + lines((p,), r) + lines(r[:1], r[1:])
    ),
)
"""Everything takes its time."""

SHAPES: Final[Mapping[str, tuple[Shape, ...]]] = {"cut": CUT, "half": HALF, "delay": DELAY}


def in_turn(way: str, count: int, rng: random.Random, named: str = "") -> list[Shape]:
    """So many shapes: each comes once before one comes twice. ``named``: a part of their names."""
    there = [shape for shape in SHAPES[way] if named in shape.name]
    assert there, f"no shape of {way} has {named!r} in its name"
    found: list[Shape] = []
    while len(found) < count:
        found += rng.sample(there, len(there))
    return found[:count]
