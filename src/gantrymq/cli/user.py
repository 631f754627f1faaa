"""``gantry user``: the users of servers with users and permissions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gantrymq.admin import Admin
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
    with_cluster,
)
from gantrymq.protocol.bodies.access import AclBody, UserBody

app = typer.Typer(help="Show, create, change and delete users of servers with permissions.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the user, which is its access key.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="A file with the secret key in its first line; - for standard input. Default: "
                                         "the command asks for it."),
]  # fmt: skip
_SUPER, _NORMAL = "Super", "Normal"
_COLUMNS = {"user": "USER", "type": "TYPE", "status": "STATUS", "servers": "SERVERS"}


@app.command(name="list")
def list_users(
    part: Annotated[str, typer.Option("--filter", help="Only users whose names contain this.")] = "",
    cluster: ClusterOption = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the users of all brokers, and of name servers that have users of their own."""
    found = with_cluster(name_servers, lambda admin: admin.access.users(part, cluster), "user list")
    rows = _rows(found)
    show.answer(as_json, rows, lambda: show.table(rows, _COLUMNS, "no users"))


def _rows(found: dict[str, list[UserBody]]) -> list[dict[str, Any]]:
    """One row for users that are the same everywhere."""
    servers: dict[tuple[str, str, str], list[str]] = {}
    for server, users in found.items():
        for user in users:
            key = user.username or "", user.user_type or "", user.user_status or ""
            servers.setdefault(key, []).append(server)
    return [
        {"user": name, "type": kind, "status": status, "servers": ", ".join(where)}
        for (name, kind, status), where in sorted(servers.items())
    ]


@app.command(name="show")
def show_user(
    name: Name, cluster: ClusterOption = None, as_json: Json = False, name_servers: NameServers = LOCAL
) -> None:
    """Show a user and its policies."""

    async def work(admin: Admin) -> tuple[dict[str, list[UserBody]], dict[str, list[AclBody]]]:
        return await admin.access.users(name, cluster), await admin.access.policies(name, "", cluster)

    users, policies = with_cluster(name_servers, work, "user show")
    rows = [row for row in _rows(users) if row["user"] == name]
    if not rows:
        fail(f"there is no user {name!r}; `gantry user list` shows those there are", "user show")
    granted = [row for row in policy_rows(policies) if row["user"] == name]

    def draw() -> None:
        show.table(rows, _COLUMNS, "")
        show.table(granted, POLICY_COLUMNS, "no policies")

    show.answer(as_json, {"user": name, "at": rows, "policies": granted}, draw)


POLICY_COLUMNS = {
    "user": "USER", "resource": "RESOURCE", "actions": "ACTIONS", "decision": "DECISION", "from": "FROM",
    "servers": "SERVERS",
}  # fmt: skip


def policy_rows(found: dict[str, list[AclBody]]) -> list[dict[str, Any]]:
    """One row for policies that are the same everywhere."""
    servers: dict[tuple[str, ...], list[str]] = {}
    for server, acls in found.items():
        for acl in acls:
            for entry in (entry for policy in acl.policies for entry in policy.entries):
                user = (acl.subject or "").removeprefix("User:")
                sources = ", ".join(entry.source_ips or ())
                key = user, entry.resource, ",".join(entry.actions), entry.decision, sources
                servers.setdefault(key, []).append(server)
    names = ("user", "resource", "actions", "decision", "from")
    return [
        {**dict(zip(names, key, strict=True)), "servers": ", ".join(where)} for key, where in sorted(servers.items())
    ]


@app.command()
def create(
    name: Name,
    is_super: Annotated[bool, typer.Option("--super", help="A super user, who may do everything.")] = False,
    password_file: PasswordFile = None,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Create a user. It may do nothing until it has policies (`gantry acl allow`)."""
    kind = _SUPER if is_super else _NORMAL
    secret = "" if dry_run else _password(password_file, "user create")
    user = UserBody(username=name, password=secret, user_type=kind)
    change = Change(
        "user create", "create user", f"Create the {kind.lower()} user {name}?", {"user": name, "type": kind}
    )
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    carry_out(change, consent, lambda admin: admin.access.create_user(user, cluster))


@app.command()
def update(
    name: Name,
    is_super: Annotated[bool | None, typer.Option("--super/--normal", help="Whether it may do everything.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether its requests are served.")] = None,
    new_password: Annotated[bool, typer.Option("--new-password", help="Ask for a new secret key.")] = False,
    password_file: PasswordFile = None,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Change a user. What is not given stays."""
    changes_secret = new_password or password_file is not None
    facts: dict[str, Any] = {"user": name}
    facts |= {} if is_super is None else {"type": _SUPER if is_super else _NORMAL}
    facts |= {} if enabled is None else {"status": "enable" if enabled else "disable"}
    facts |= {"new_password": True} if changes_secret else {}  # nosec B105 # it is said that there is one
    if len(facts) == 1:
        fail("say what to change: --super, --disable, --new-password and so on", "user update", USAGE)
    secret = _password(password_file, "user update") if changes_secret and not dry_run else None
    user = UserBody(username=name, password=secret, user_type=facts.get("type"), user_status=facts.get("status"))
    change = Change("user update", "update user", f"Change the user {name}?", facts)
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    carry_out(change, consent, lambda admin: admin.access.update_user(user, cluster))


@app.command()
def delete(
    name: Name,
    why: Why = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Delete a user with its policies."""
    change = Change("user delete", "delete user", f"Delete the user {name} and its policies?", {"user": name})
    consent = Consent(why, yes, dry_run, audit, as_json, name_servers)
    carry_out(change, consent, lambda admin: admin.access.delete_user(name, cluster))


def _password(file: Path | None, command: str) -> str:
    """The secret; never from the command line, which every user of the machine can read."""
    if file is None:
        if not sys.stdin.isatty():
            fail(
                "there is nobody to ask for the password here; use --password-file (- for standard input)",
                command,
                USAGE,
            )
        return str(typer.prompt("Password (secret key)", hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read: {error}", command)
    secret = text.partition("\n")[0].strip()
    if not secret:
        fail(f"the first line of {file} is empty; write the password there", command, USAGE)
    return secret
