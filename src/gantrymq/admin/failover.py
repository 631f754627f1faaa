"""A replica takes the place of its primary, because an operator says so.

| step of a planned one                 | what is true behind it                                                     |
|---------------------------------------|----------------------------------------------------------------------------|
| the primary becomes a replica         | nothing is taken any more; its replicas got the whole log                  |
| its end is compared with the target's | the target has everything; if not, the primary is made primary again       |
| the target becomes primary            | it takes messages, with the ``brokerRole`` that the old primary had        |
| the name servers are looked at        | clients find it                                                            |

In a group that elects its primary by itself (``etcdAddr``), the primary does the first two steps when it is asked, and
the record then names the target: see ``election/leadership.py``. Nobody's settings change there, and nothing is forced.

Elsewhere a forced one has only the last two: the primary is gone. Both change ``brokerRole`` and ``brokerId``, which
brokers also write into their ``broker.conf``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gantrymq.admin.brokers import BrokerPlace, Brokers
from gantrymq.errors import ConfigError, GantryError, RequestRejected, TimedOut, Unreachable
from gantrymq.protocol.bodies.replication import HAClient, HAStatus
from gantrymq.protocol.bodies.route import MASTER_ID as MASTER
from gantrymq.runtime.clock import Clock

SLAVE, ASYNC_MASTER = "SLAVE", "ASYNC_MASTER"
LOOK_S: Final = 0.02
COPIED_S: Final = 10.0
"""How long the target may take to get the rest of the log."""
CHANGED_S: Final = 30.0
"""How long a broker may take for its new role."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Failover:
    """What will be done."""

    name: str
    target: BrokerPlace
    primary: BrokerPlace | None
    """None: it is gone, and the target is forced."""
    role: str
    """``brokerRole`` of the target behind it."""
    spare_id: int
    """``brokerId`` of the old primary behind it."""
    behind: int | None
    """Bytes that the target does not have yet; None: nobody knows."""
    elects: int = 0
    """Identity of the target's disk, where the group elects its primary; 0: settings say who is primary."""


async def planned(brokers: Brokers, name: str, to: int | None, *, forced: bool) -> Failover:
    """Look whether it can be done. ``to``: the brokerId of the target; None: the replica that has most. Raises
    ConfigError saying what is in the way."""
    members = [place for place in await brokers.places() if place.name == name]
    if not members:
        raise ConfigError(f"the name servers know no broker {name!r}; `gantry cluster list` shows those there are")
    replicas = [one for one in members if one.broker_id != MASTER and to in (None, one.broker_id)]
    if not replicas:
        raise ConfigError(f"{name} has no replica{'' if to is None else f' with brokerId {to}'} that could take over")
    group = await _in_group(brokers, members)
    if group:
        return await _by_election(brokers, name, members, [one for one in replicas if one in group], forced=forced)
    ends = await _ends(brokers, replicas)
    target = max((one for one in replicas if one.address in ends), key=lambda one: ends[one.address])
    primary = await _primary(brokers, members, forced=forced)
    behind, role = None, ASYNC_MASTER
    if primary is not None:
        following = await _following(brokers, target)
        if not following.is_activated:
            why = following.problem or following.state or "it does not say why"
            raise ConfigError(f"{target.address} does not follow its primary at the moment: {why}")
        behind = max(int((await brokers.runtime(primary.address))["commitLogMaxOffset"]) - ends[target.address], 0)
        role = (await brokers.config(primary.address)).get("brokerRole", ASYNC_MASTER)
    for one in (target, *([] if primary is None else [primary])):
        await _able(brokers, one, is_target=one is target)
    used = {one.broker_id for one in members}
    spare = next(number for number in range(1, len(used) + 2) if number not in used)
    return Failover(name, target, primary, role, spare, behind)


async def _in_group(brokers: Brokers, members: list[BrokerPlace]) -> dict[BrokerPlace, HAStatus]:
    """Those that say that their group elects its primary. One that is silent is left out."""
    found = {}
    for one in members:
        with contextlib.suppress(Unreachable, TimedOut, RequestRejected):
            found[one] = await brokers.replication(one.address)
    return {one: status for one, status in found.items() if status.election is not None}


async def _by_election(
    brokers: Brokers, name: str, members: list[BrokerPlace], replicas: list[BrokerPlace], *, forced: bool
) -> Failover:
    """In a group that elects its primary."""
    if forced:
        raise ConfigError(
            f"the group of {name} elects its primary by itself, so that nothing is lost: leave out --force. If nobody "
            'is elected, docs/election.md says why, under "At 3 a.m."'
        )
    primary = next((one for one in members if one.broker_id == MASTER), None)
    if primary is None:
        raise ConfigError(
            f"the name servers know no primary of {name}. Its group elects one: wait, and see `gantry cluster replicas`"
        )
    leads = (await brokers.replication(primary.address)).election
    if leads is None or leads.problem:
        why = "it is not in the group: has it no etcdAddr?" if leads is None else leads.problem
        raise ConfigError(f"the primary at {primary.address} cannot hand over: {why}")
    able, problems = dict[BrokerPlace, tuple[int, int]](), list[str]()
    for one in replicas:
        status = await brokers.replication(one.address)
        problem = _not_electable(status)
        if problem:
            problems.append(f"{one.address} {problem}")
        elif status.election is not None and status.ha_client_runtime_info is not None:
            able[one] = status.ha_client_runtime_info.max_offset, status.election.disk
    if not able:
        raise ConfigError("; ".join(problems) or f"no replica of {name} answers")
    target = max(able, key=lambda one: able[one][0])
    end, disk = able[target]
    behind = max(int((await brokers.runtime(primary.address))["commitLogMaxOffset"]) - end, 0)
    return Failover(name, target, primary, "", target.broker_id, behind, disk)


def _not_electable(status: HAStatus) -> str:
    """Why a replica of a group cannot become primary now; empty: it can."""
    client, election = status.ha_client_runtime_info, status.election
    if client is None or election is None:
        return "does not say how far its log is: is it a replica?"
    if not election.is_member:
        return (
            "is not in the in-sync set, so it may lack what was acknowledged: wait until `gantry cluster replicas` "
            "says that it may be elected"
        )
    if not client.is_activated:
        return f"does not follow the primary at the moment: {client.problem or client.state or 'it does not say why'}"
    if election.problem:
        return f"cannot be elected: {election.problem}"
    return "" if election.disk else "has an older version, which cannot be named: stop the primary instead (SIGTERM)"


async def _ends(brokers: Brokers, replicas: list[BrokerPlace]) -> dict[str, int]:
    """How far the log of each replica is, by its address. One that is silent stops no failover, unless all are: then
    its error is raised."""
    found: dict[str, int] = {}
    silent: GantryError | None = None
    for one in replicas:
        try:
            found[one.address] = await _end(brokers, one)
        except (Unreachable, TimedOut) as error:
            silent = error
    if silent is not None and not found:
        raise silent
    return found


async def _end(brokers: Brokers, replica: BrokerPlace) -> int:
    return (await _following(brokers, replica)).max_offset


async def _following(brokers: Brokers, replica: BrokerPlace) -> HAClient:
    try:
        status = await brokers.replication(replica.address)
    except RequestRejected as error:
        raise ConfigError(f"{replica.address} is a broker of Apache before 5.0: start it again as primary") from error
    if status.ha_client_runtime_info is None:
        raise ConfigError(f"{replica.address} does not say how far its log is: is it a replica?")
    return status.ha_client_runtime_info


async def _primary(brokers: Brokers, members: list[BrokerPlace], *, forced: bool) -> BrokerPlace | None:
    primary = next((one for one in members if one.broker_id == MASTER), None)
    if primary is None:
        if forced:
            return None
        raise ConfigError("the name servers know no primary of it. If it is gone for good, use --force")
    try:
        await brokers.runtime(primary.address)
    except GantryError as error:
        if forced:
            return None
        raise ConfigError(
            f"the primary at {primary.address} does not answer ({error}). If it is gone for good, use --force"
        ) from error
    if forced:
        raise ConfigError(f"the primary at {primary.address} answers: leave out --force, then nothing is lost")
    return primary


async def _able(brokers: Brokers, place: BrokerPlace, *, is_target: bool) -> None:
    version = (await brokers.runtime(place.address)).get("brokerVersionDesc", "")
    if not version.startswith("GantryMQ"):
        raise ConfigError(f"{place.address} is {version or 'not ours'}: it must be started again for another role")
    settings = await brokers.config(place.address)
    if settings.get("etcdAddr"):
        raise ConfigError(f"{place.address} elects its primary, and others of {place.name} do not: give all etcdAddr")
    if settings.get("haMasterAddress"):
        raise ConfigError(
            f"{place.address} has haMasterAddress, which names one primary for ever. Remove it, so that the name "
            "servers say where the primary is, and start it again"
        )
    if is_target and settings.get("haListenPort", "0") == "0":
        raise ConfigError(f"{place.address} has no haListenPort, so that nobody could follow it. Set it, and restart")


async def carry_out(brokers: Brokers, failover: Failover, say: Say, clock: Clock) -> float:
    """Do it. Returns for how many seconds no broker took messages, as far as it was seen from here. Raises GantryError:
    the primary has its role again when the target did not get the whole log."""
    try:
        return await _steps(brokers, failover, say, clock)
    except BaseException:
        repeat = "The group goes on by itself" if failover.elects else "When no broker is primary, repeat with --force"
        say(
            f"it broke off: {failover.name} may have no primary now. `gantry cluster replicas` shows who is what. "
            f"{repeat}"
        )
        raise


async def _steps(brokers: Brokers, failover: Failover, say: Say, clock: Clock) -> float:
    if failover.elects:
        return await _elect(brokers, failover, say, clock)
    begun = clock.monotonic()
    primary, target = failover.primary, failover.target
    if primary is not None:
        say(f"{primary.address} stops taking messages, and gives its replicas the rest")
        await brokers.set_config(primary.address, {"brokerRole": SLAVE, "brokerId": str(failover.spare_id)})
        await _until(clock, lambda: _is_replica(brokers, primary), CHANGED_S, f"{primary.address} becomes a replica")
        end = await _end(brokers, primary)
        try:
            await _until(clock, lambda: _has(brokers, target, end), COPIED_S, f"{target.address} gets the whole log")
        except GantryError:
            again = f"{primary.address} becomes primary again"
            say(again)
            await brokers.set_config(primary.address, {"brokerRole": failover.role, "brokerId": str(MASTER)})
            await _until(clock, lambda: _is_primary(brokers, primary), CHANGED_S, again)
            raise
    say(f"{target.address} becomes primary")
    await brokers.set_config(target.address, {"brokerRole": failover.role, "brokerId": str(MASTER)})
    await _until(clock, lambda: _is_primary(brokers, target), CHANGED_S, f"{target.address} becomes primary")
    seconds = clock.monotonic() - begun
    await _until(clock, lambda: _is_known(brokers, failover), CHANGED_S, "the name servers name the new primary")
    return seconds


async def _elect(brokers: Brokers, failover: Failover, say: Say, clock: Clock) -> float:
    primary, target = failover.primary, failover.target
    assert primary is not None  # it is asked
    say(f"{primary.address} stops taking messages, and gives its replicas the rest")
    begun = clock.monotonic()
    await brokers.elect(primary, failover.elects)
    say(f"{target.address} is elected")
    await _until(clock, lambda: _takes_writes(brokers, target), CHANGED_S, f"{target.address} becomes primary")
    seconds = clock.monotonic() - begun
    await _until(clock, lambda: _is_known(brokers, failover), CHANGED_S, "the name servers name the new primary")
    return seconds


async def _takes_writes(brokers: Brokers, place: BrokerPlace) -> bool:
    """Whether a member of a group is primary, and its replicas have confirmed what it had."""
    election = (await brokers.replication(place.address)).election
    return election is not None and election.takes_writes


async def _is_replica(brokers: Brokers, place: BrokerPlace) -> bool:
    status = await brokers.replication(place.address)
    return not status.master and status.ha_client_runtime_info is not None


async def _is_primary(brokers: Brokers, place: BrokerPlace) -> bool:
    return (await brokers.replication(place.address)).master


async def _has(brokers: Brokers, place: BrokerPlace, end: int) -> bool:
    return await _end(brokers, place) >= end


async def _is_known(brokers: Brokers, failover: Failover) -> bool:
    try:
        places = await brokers.places()
    except Unreachable:  # they know no broker at all while this one changes its id
        return False
    return any(
        place.broker_id == MASTER and place.address == failover.target.address
        for place in places
        if place.name == failover.name
    )


async def _until(clock: Clock, holds: Callable[[], Awaitable[bool]], limit_s: float, what: str) -> None:
    """Raises TimedOut: see `gantry cluster replicas` then."""
    ends = clock.monotonic() + limit_s
    while not await holds():
        if clock.monotonic() > ends:
            raise TimedOut(what, int(limit_s * 1000))
        await clock.sleep(LOOK_S)
