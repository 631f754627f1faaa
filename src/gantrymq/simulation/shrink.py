"""Makes the run of a failing seed shorter: fewer faults of fewer kinds, fewer orders, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from gantrymq.simulation.run import Plan, Result


def shrink(failing: Result, play: Callable[[int, Plan], Result], tries: int = 60) -> Result:
    """The smallest run found that still breaks one of the same rules. ``play``: runs a seed with a plan."""
    rules = {violation.rule for violation in failing.violations}
    best = failing
    for _ in range(tries):
        smaller = next(
            (result for plan in _smaller(best.plan) if _same(result := play(best.seed, plan), rules)), None
        )  # fmt: skip
        if smaller is None:
            return best
        best = smaller
    return best


def _same(result: Result, rules: set[str]) -> bool:
    if not rules:
        return not result.good
    return bool(rules & {violation.rule for violation in result.violations})


def _smaller(plan: Plan) -> Iterator[Plan]:
    for name in plan.faults:
        if len(plan.faults) > 1:
            yield replace(plan, faults=tuple(other for other in plan.faults if other != name))
    for count in sorted({plan.fault_count // 2, plan.fault_count - 1}):
        if 0 <= count < plan.fault_count:
            yield replace(plan, fault_count=count)
    for orders in sorted({plan.orders // 2, plan.orders - 2}):
        if 0 < orders < plan.orders:
            yield replace(plan, orders=orders)
