"""One broker and the databases of these tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import tests.django  # noqa: F401 - configures Django
from tests.sql.blocks.grounds import Ground, grounds
from tests.sql.blocks.harness import Harness
from tests.sql.databases import Place

Harnesses = Callable[[str], Harness]


@pytest.fixture(scope="module")
def harness_on(
    database_server: Callable[[str], Place], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harnesses]:
    """``harness_on("sqlite")``: one broker, and an empty database of that kind."""
    made: dict[str, Ground] = {}
    with Harness(made) as harness:

        def on(kind: str) -> Harness:
            if kind not in made:
                made.update(grounds([kind], database_server, tmp_path_factory.mktemp("blocks")))
            return harness

        yield on
    for ground in made.values():
        ground.drop()
