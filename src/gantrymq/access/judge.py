"""Whether a user's policies allow what a request needs. Pure.

The rules are those of Apache's ACL 2.0 (AclAuthorizationHandler): of all policies that fit, the most exact one decides.
A policy for topics is more exact than one for everything, a whole name than a prefix, a long prefix than a short one,
and a prefix than ``*``. No policy fits: the answer is no. Two differences:

* of two policies that are equally exact the one that denies wins (Apache's comparison has it the other way round,
  against its own comment);
* the topics with undecided messages (``TRANSACTION_TOPICS``) are opened only by a policy with their whole name, because
  who writes ``Topic:*`` means the topics of applications. The same holds for reading any other topic of the system in
  which messages of several topics lie (``SHARED``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gantrymq.access.addresses import in_range
from gantrymq.access.values import Action, Grants, Need, Pattern, Policy, PolicyDecision, ResourceKind
from gantrymq.message.system_topics import TRANSACTION_TOPICS, Holds, holds

SHARED: Final = frozenset({Holds.WAITING, Holds.TRACES, Holds.REPLIES, Holds.NOTES})
"""What may be read only by a policy with the whole name of its topic. Retry topics and dead letters are not among it:
a policy for their group opens them, and each message there is judged by its own topic (``broker.message_rights``)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer, and the policy that gave it."""

    allowed: bool
    policy: Policy | None
    """None: no policy fits, which is a no."""


def judge(grants: Grants, need: Need, source: str) -> Judgement:
    """Whether ``grants`` allow ``need`` to a client with the IP address ``source``."""
    policy = _most_exact(grants.custom, need, source) or _most_exact(grants.default, need, source)
    return Judgement(policy is not None and policy.decision is PolicyDecision.ALLOW, policy)


def _most_exact(policies: Iterable[Policy], need: Need, source: str) -> Policy | None:
    return min((policy for policy in policies if fits(policy, need, source)), key=_rank, default=None)


def fits(policy: Policy, need: Need, source: str) -> bool:
    """Whether a policy is about what is needed: the resource, one of the actions, and the address."""
    resource = policy.resource
    if not resource.covers(need.kind, need.name):
        return False
    if is_hidden(need) and resource.pattern is not Pattern.LITERAL and policy.decision is PolicyDecision.ALLOW:
        return False
    if Action.ANY not in need.actions and Action.ALL not in policy.actions and policy.actions.isdisjoint(need.actions):
        return False
    return not policy.sources or any(in_range(source, text) for text in policy.sources)


def is_hidden(need: Need) -> bool:
    """Whether it is about a topic with undecided messages, or about reading one with messages of several topics."""
    if need.kind is not ResourceKind.TOPIC:
        return False
    if need.name in TRANSACTION_TOPICS:
        return True
    reads = Action.SUB in need.actions and Action.PUB not in need.actions
    return reads and holds(need.name) in SHARED


def _rank(policy: Policy) -> tuple[bool, Pattern, int, bool]:
    resource = policy.resource
    return (
        resource.kind is ResourceKind.ANY,
        resource.pattern,
        -len(resource.name),
        policy.decision is PolicyDecision.ALLOW,
    )
