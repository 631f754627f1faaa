"""Work whose result goes to a callback."""

from __future__ import annotations

import asyncio
import gc

import pytest

from gantrymq.client.sending.callbacks import in_task
from gantrymq.errors import Closed
from gantrymq.runtime.tasks import TaskGroupOwner


def test_work_that_is_stopped_before_its_first_step_ends_as_closed_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    results: list[BaseException | None] = []

    async def work() -> None:
        raise AssertionError("began")

    async def test() -> None:
        owner = TaskGroupOwner("test")
        in_task(owner, "work", work(), results.append)
        await owner.stop()

    asyncio.run(test())
    gc.collect()
    assert [type(result) for result in results] == [Closed]
    assert [str(warning.message) for warning in recwarn] == []
