"""Makes a block that breaks a rule shorter, as long as it still breaks the same one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sql.blocks.plan import Block, Step


def shrink(block: Block, fails: Callable[[Block], bool], form: str, tries: int = 60) -> Block:
    """The smallest block found that ``fails``, too. ``form``: the simplest one. ``tries``: how often to ask."""
    left = tries
    while True:
        for smaller in candidates(block, form):
            left -= 1
            if left < 0:
                return block
            if fails(smaller):
                block = smaller
                break
        else:
            return block


def candidates(block: Block, form: str) -> Iterator[Block]:
    """Blocks that are a little smaller, the smallest first."""
    for steps in _fewer(block.steps):
        yield replace(block, steps=steps)
    if block.setting != "default":
        yield replace(block, setting="default")
    if block.form != form:
        yield replace(block, form=form)


def _fewer(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for number, step in enumerate(steps):
        before, behind = steps[:number], steps[number + 1 :]
        yield before + behind
        if step.inner:
            yield before + step.inner + behind
    for number, step in enumerate(steps):
        before, behind = steps[:number], steps[number + 1 :]
        for inner in _fewer(step.inner):
            yield (*before, replace(step, inner=inner), *behind)
