"""``gantry acl``: what users may do."""

from __future__ import annotations

from typing import Annotated

import typer

from gantrymq.access.texts import grants_of
from gantrymq.cli import show
from gantrymq.cli.audited import Audit, Change, Consent, Why, carry_out
from gantrymq.cli.cluster_options import (
    LOCAL,
    USAGE,
    ClusterOption,
    DryRun,
    Json,
    NameServers,
    Yes,
    fail,
    guarded,
    with_cluster,
)
from gantrymq.cli.user import POLICY_COLUMNS, policy_rows
from gantrymq.protocol.bodies.access import AclBody, EntryBody, PolicyBody

app = typer.Typer(help="Show and change what users may do.", no_args_is_help=True)
User = Annotated[str, typer.Argument(help="Name of the user.")]
Resources = Annotated[
    list[str],
    typer.Option("--resource", "-r", help="Topic:orders, Topic:order*, Group:billing, Cluster:*, * ...; may be "
                                          "repeated."),
]  # fmt: skip
Actions = Annotated[
    str, typer.Option("--actions", "-a", help="Pub, Sub, Create, Update, Delete, Get, List, All; separated by commas.")
]
Sources = Annotated[
    list[str] | None,
    typer.Option("--from", help="An IP address or range (10.0.0.0/8) from where it counts; may be repeated. Default: "
                                "everywhere."),
]  # fmt: skip


@app.command(name="list")
def list_policies(
    user: Annotated[str, typer.Option("--user", "-u", help="Only of users whose names contain this.")] = "",
    resource: Annotated[str, typer.Option("--resource", "-r", help="Only for resources that contain this.")] = "",
    cluster: ClusterOption = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the policies of all users."""
    found = with_cluster(name_servers, lambda admin: admin.access.policies(user, resource, cluster), "acl list")
    rows = policy_rows(found)
    show.answer(as_json, rows, lambda: show.table(rows, POLICY_COLUMNS, "no policies"))


@app.command()
def allow(
    user: User,
    resource: Resources,
    actions: Actions,
    source: Sources = None,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Allow a user some actions on resources. A policy for the same resource is replaced."""
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    _put("Allow", user, resource, actions, source, cluster, consent)


@app.command()
def deny(
    user: User,
    resource: Resources,
    actions: Actions,
    source: Sources = None,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Forbid a user some actions on resources. The most exact policy decides."""
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    _put("Deny", user, resource, actions, source, cluster, consent)


def _put(
    decision: str,
    user: str,
    resources: list[str],
    actions: str,
    sources: list[str] | None,
    cluster: str | None,
    consent: Consent,
) -> None:
    command = f"acl {decision.lower()}"
    words = [word.strip() for word in actions.split(",") if word.strip()]
    entries = [EntryBody(resource=one, actions=words, source_ips=sources, decision=decision) for one in resources]
    guarded(lambda: grants_of(AclBody(policies=[PolicyBody(entries=entries)])), command)  # before anybody is asked
    facts = {"user": user, "resources": resources, "actions": words, "policy": decision, "from": sources or []}
    question = f"{decision} {', '.join(words)} on {', '.join(resources)} to {user}?"
    change = Change(command, f"{decision.lower()} by policy", question, facts)
    carry_out(change, consent, lambda admin: admin.access.put_policies(user, entries, cluster))


@app.command()
def remove(
    user: User,
    resource: Annotated[str | None, typer.Option("--resource", "-r", help="The policy for this resource.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All policies of the user.")] = False,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Remove policies of a user."""
    if (resource is None) == (not every):
        fail("say which policy: --resource Topic:orders, or --all", "acl remove", USAGE)
    what = "all policies" if resource is None else f"the policy for {resource}"
    facts = {"user": user, "resource": resource or "all"}
    change = Change("acl remove", "remove policy", f"Remove {what} of {user}?", facts)
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    carry_out(change, consent, lambda admin: admin.access.delete_policy(user, resource, cluster))
