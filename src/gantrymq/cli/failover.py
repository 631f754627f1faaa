"""``gantry cluster failover``: a replica takes the place of its primary."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gantrymq.admin import Admin
from gantrymq.admin.failover import Failover, carry_out, planned
from gantrymq.cli import show
from gantrymq.cli.cluster_options import LOCAL, DryRun, Json, NameServers, Yes, agreed, with_cluster
from gantrymq.runtime.clock import SystemClock

COMMAND = "cluster failover"


def failover(
    broker: Annotated[str, typer.Argument(help="The brokerName that primary and replicas share.")],
    to: Annotated[int | None, typer.Option("--to", help="brokerId of the replica. Default: the one with most.")] = None,
    force: Annotated[bool, typer.Option("--force", help="The primary is gone for good: do not ask it.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Make a replica the primary. The old primary becomes a replica; nothing is lost.

    A group that elects its primary by itself (etcdAddr) does so, too, when you name the next one.

    With --force the old primary is not asked, because it is gone: messages that no replica has are lost then. Make
    sure that it does not run any more.
    """
    plan = with_cluster(name_servers, lambda admin: planned(admin.brokers, broker, to, forced=force), COMMAND)
    if not as_json:
        typer.echo(_sentence(plan))
    if dry_run:
        show.answer(as_json, {"done": False, **_facts(plan)}, lambda: typer.echo("nothing was done (--dry-run)"))
        return
    agreed("Do it?", yes, COMMAND)

    async def work(admin: Admin) -> float:
        return await carry_out(admin.brokers, plan, lambda text: typer.echo(text, err=True), SystemClock())

    seconds = with_cluster(name_servers, work, COMMAND)
    done = f"{plan.target.address} is the primary of {plan.name}; for {seconds:.2f} s no message was taken"
    show.answer(as_json, {"done": True, "seconds": round(seconds, 3), **_facts(plan)}, lambda: typer.echo(done))


def _sentence(plan: Failover) -> str:
    if plan.primary is None:
        return (
            f"{plan.target.address} becomes primary of {plan.name} as it is. Messages that only the old primary has "
            "are lost. The old primary must not start again as primary: set brokerRole=SLAVE and another brokerId "
            "there first."
        )
    if plan.elects:
        return (
            f"{plan.target.address} becomes primary of {plan.name}. {plan.primary.address} becomes replica. The new "
            f"primary is {plan.behind} bytes behind, and gets them first."
        )
    return (
        f"{plan.target.address} becomes primary of {plan.name} ({plan.role}). {plan.primary.address} becomes replica "
        f"with brokerId {plan.spare_id}. The new primary is {plan.behind} bytes behind, and gets them first."
    )


def _facts(plan: Failover) -> dict[str, Any]:
    return {
        "broker": plan.name, "target": plan.target.address, "role": plan.role, "behind": plan.behind,
        "old": None if plan.primary is None else plan.primary.address,
    }  # fmt: skip
