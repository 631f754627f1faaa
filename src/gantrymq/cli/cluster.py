"""``gantry cluster``: the brokers, their state, and their settings."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from gantrymq.admin import Admin
from gantrymq.cli import show
from gantrymq.cli.cluster_options import (
    LOCAL,
    USAGE,
    BrokerOption,
    DryRun,
    Json,
    NameServers,
    Yes,
    agreed,
    fail,
    pairs,
    with_cluster,
)
from gantrymq.cli.failover import failover
from gantrymq.cli.replicas import copy_state, in_sets
from gantrymq.errors import GantryError

app = typer.Typer(
    help="Show the brokers of a cluster and their state, and change their settings.", no_args_is_help=True
)
config = typer.Typer(help="Show and change settings of running brokers.", no_args_is_help=True)
app.add_typer(config, name="config")
app.command(name="failover")(failover)


@app.command(name="list")
def list_brokers(as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show every broker that the name servers know, and how busy it is."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        rows = []
        for place in await admin.brokers.places():
            row: dict[str, Any] = {
                "cluster": place.cluster, "broker": place.name, "id": place.broker_id, "address": place.address,
            }  # fmt: skip
            try:
                row |= _figures(await admin.brokers.runtime(place.address))
            except GantryError as error:
                row |= {"version": f"does not answer: {error}"}
            rows.append(row)
        return rows

    rows = with_cluster(name_servers, work, "cluster list")
    columns = {
        "cluster": "CLUSTER", "broker": "BROKER", "id": "ID", "address": "ADDRESS", "version": "VERSION",
        "in_tps": "IN/S", "out_tps": "OUT/S", "stored_today": "STORED TODAY", "disk": "DISK USED",
        "takes_messages": "TAKES MESSAGES",
        "running_since": "RUNNING SINCE",
    }  # fmt: skip
    empty = "the name servers know no broker; start one (`gantry server` or `gantry broker`)"
    show.answer(as_json, rows, lambda: show.table(rows, columns, empty))


def _figures(table: dict[str, str]) -> dict[str, Any]:
    out = table.get("getTransferredTps") or table.get("getTransferedTps") or ""
    boot = table.get("bootTimestamp", "")
    ratio = table.get("commitLogDiskRatio", "")
    stored = [table.get(name, "") for name in ("msgPutTotalTodayNow", "msgPutTotalTodayMorning")]
    return {
        "version": table.get("brokerVersionDesc"),
        "in_tps": _first(table.get("putTps", "")),
        "out_tps": _first(out),
        "stored_today": int(stored[0]) - int(stored[1]) if all(text.isdecimal() for text in stored) else None,
        "takes_messages": _takes_messages(table.get("writesRefused")),
        "disk": f"{float(ratio):.0%}" if ratio.replace(".", "", 1).isdecimal() else None,
        "running_since": show.when(int(boot)) if boot.isdecimal() else None,
    }


def _takes_messages(refused: str | None) -> str | None:
    """None: the broker does not say so (Apache's)."""
    return None if refused is None else "no" if refused else "yes"


def _first(text: str) -> float | None:
    """The first of three rates: that of the last ten seconds."""
    words = text.split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


@app.command()
def status(
    broker: Annotated[str | None, typer.Argument(help="Name or address; default: every master.")] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show everything a broker says about itself."""

    async def work(admin: Admin) -> dict[str, dict[str, str]]:
        return {name: await admin.brokers.runtime(at) for name, at in (await admin.brokers.addresses(broker)).items()}

    found = with_cluster(name_servers, work, "cluster status")

    def draw() -> None:
        for name, table in found.items():
            typer.secho(name, bold=True)
            if table.get("writesRefused"):
                typer.secho(f"takes no messages: {table['writesRefused']}", fg=typer.colors.RED)
            show.facts(table)

    show.answer(as_json, found, draw)


@app.command()
def replicas(as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show how far each replica has the log of its primary, and why one does not follow."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        places = await admin.brokers.places()
        found = await asyncio.gather(*(copy_state(admin, place) for place in places))
        return in_sets(list(found))

    rows = with_cluster(name_servers, work, "cluster replicas")
    columns = {
        "broker": "BROKER", "id": "ID", "address": "ADDRESS", "role": "ROLE", "end": "LOG ENDS AT", "behind": "BEHIND",
        "state": "STATE",
    }  # fmt: skip
    empty = "the name servers know no broker; start one (`gantry server` or `gantry broker`)"
    show.answer(as_json, rows, lambda: show.table(rows, columns, empty))


@config.command(name="show")
def show_config(
    broker: BrokerOption = None,
    keys: Annotated[list[str] | None, typer.Option("--key", "-k", help="Only this key; may be repeated.")] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the settings of running brokers."""

    async def work(admin: Admin) -> dict[str, dict[str, str]]:
        return {name: await admin.brokers.config(at) for name, at in (await admin.brokers.addresses(broker)).items()}

    found = with_cluster(name_servers, work, "cluster config show")
    if keys:
        found = {name: {key: table[key] for key in keys if key in table} for name, table in found.items()}
        missing = [key for key in keys if not any(key in table for table in found.values())]
        if missing:
            fail(f"no broker has a setting {', '.join(missing)}", "cluster config show")

    def draw() -> None:
        for name, table in found.items():
            typer.secho(name, bold=True)
            show.facts(table)

    show.answer(as_json, found, draw)


@config.command(name="set")
def set_config(
    settings: Annotated[list[str], typer.Argument(help="key=value ...")],
    broker: BrokerOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Change settings of running brokers: of all brokers, unless --broker names one."""
    command = "cluster config set"
    changes = pairs(settings, "setting", command)

    async def look(admin: Admin) -> list[dict[str, Any]]:
        rows = []
        for name, address in (await admin.brokers.addresses(broker)).items():
            now = await admin.brokers.config(address)
            rows += [
                {"broker": name, "address": address, "key": key, "before": now.get(key), "after": value}
                for key, value in changes.items()
            ]
        return rows

    rows = with_cluster(name_servers, look, command)
    unknown = sorted({row["key"] for row in rows if row["before"] is None})
    if unknown:
        fail(f"{', '.join(unknown)}: no such setting; `gantry cluster config show` lists them", command, USAGE)
    columns = {"broker": "BROKER", "key": "KEY", "before": "NOW", "after": "THEN"}
    if not as_json:
        show.table(rows, columns, "")
    if not dry_run:
        agreed("Change these settings?", yes, command)

        async def work(admin: Admin) -> None:
            for address in dict.fromkeys(row["address"] for row in rows):
                await admin.brokers.set_config(address, changes)

        with_cluster(name_servers, work, command)
    done = "nothing was done (--dry-run)" if dry_run else "changed"
    show.answer(as_json, {"changed": not dry_run, "settings": rows}, lambda: typer.echo(done))
