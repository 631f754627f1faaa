"""What ``gantry cluster replicas`` shows of each broker."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from gantrymq.admin import Admin
from gantrymq.admin.brokers import BrokerPlace
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.bodies.replication import Election

PRIMARY, REPLICA = "primary", "replica"


async def copy_state(admin: Admin, place: BrokerPlace) -> dict[str, Any]:
    """One broker. Figures that it does not say are None."""
    row: dict[str, Any] = {
        "cluster": place.cluster, "broker": place.name, "id": place.broker_id, "address": place.address,
        "role": PRIMARY if place.broker_id == 0 else REPLICA, "end": None, "behind": None, "state": "",
    }  # fmt: skip
    try:
        end = (await admin.brokers.runtime(place.address)).get("commitLogMaxOffset", "")
        row["end"] = int(end) if end.isdecimal() else None
        return row | await _said(admin, place)
    except GantryError as error:
        return row | {"state": f"does not answer: {error}"}


async def _said(admin: Admin, place: BrokerPlace) -> dict[str, Any]:
    """What it says of replication itself."""
    try:
        status = await admin.brokers.replication(place.address)
    except RequestRejected:
        return {"state": "does not say it (Apache, before 5.0)"}
    client = status.ha_client_runtime_info
    if status.master or client is None:
        count = len(status.ha_connection_info)
        state = f"{count} replica(s) connected" if count else "no replica is connected"
        return {"role": PRIMARY, "state": state + _elected(status.election, primary=True)}
    state = client.problem or client.state or ("follows" if client.is_activated else "does not follow")
    return {
        "role": REPLICA,
        "end": client.max_offset or None,
        "state": state + _elected(status.election, primary=False),
    }


def _elected(election: Election | None, *, primary: bool) -> str:
    """What there is to say in a group that elects its primary."""
    if election is None:
        return ""
    problem = f"; {election.problem}" if election.problem else ""
    if primary:
        return f"; epoch {election.epoch}, {election.in_sync} in the in-sync set{problem}"
    return f"; epoch {election.epoch}, {'may' if election.is_member else 'may not'} be elected{problem}"


def in_sets(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By the name that the copies of one log share, the primary first, with the bytes that each replica is behind. A
    replica is asked a moment later, so it may seem to be ahead: then it is not behind."""
    sets: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["cluster"], row["broker"], row["role"], row["id"])):
        sets[row["cluster"], row["broker"]].append(row)
    for members in sets.values():
        primary = next((row for row in members if row["role"] == PRIMARY), None)
        for row in members:
            if row["role"] == REPLICA and row["end"] is not None and primary is not None and primary["end"] is not None:
                row["behind"] = max(primary["end"] - row["end"], 0)
    return [row for members in sets.values() for row in members]
