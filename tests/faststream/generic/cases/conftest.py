"""FastStream's fixtures, a broker in this process, and coroutines as tests. Copied beside FastStream's ``tests``."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator

import pytest
from tests.conftest import *  # type: ignore[import-not-found]  # noqa: F403 - FastStream's own

from gantrymq.faststream.testing import InProcessProducer
from gantrymq.testing import LocalCluster


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as made:
        yield made


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function, as the plugin of FastStream's own runs does."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted if name in pyfuncitem.funcargs}))
    return True


@pytest.fixture
def fake_producer_cls() -> type:
    return InProcessProducer
