"""Judging is total, what is more exact decides, and a denial is never outvoted by an equally exact policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.access.judge import fits, judge
from gantrymq.access.values import Action, Grants, Need, Policy, PolicyDecision, Resource, ResourceKind
from gantrymq.message.system_topics import HALF, TRANSACTION_TOPICS

NAMES = st.sampled_from(["orders", "orders-eu", "o", "payments", HALF])
RESOURCES = st.builds(
    lambda kind, name, star: Resource.parse("*" if kind == "*" else f"{kind}:{'*' if star == 'any' else name + star}"),
    st.sampled_from(["*", "Topic", "Group", "Cluster"]),
    NAMES,
    st.sampled_from(["", "*", "any"]),
)
ACTIONS = st.sets(st.sampled_from([action for action in Action if action is not Action.ANY]), min_size=1)
SOURCES = st.sampled_from([(), ("10.0.0.1",), ("10.0.0.0/8", "::1")])
POLICIES = st.builds(Policy, RESOURCES, ACTIONS.map(frozenset), st.sampled_from(PolicyDecision), SOURCES)
GRANTS = st.builds(
    Grants, st.lists(POLICIES, max_size=6).map(tuple), st.lists(POLICIES, max_size=3).map(tuple)
)  # fmt: skip
NEEDS = st.builds(
    Need,
    st.sampled_from([ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER]),
    NAMES,
    st.lists(st.sampled_from(Action), min_size=1).map(tuple),
)
FROM = st.sampled_from(["10.0.0.1", "10.9.9.9", "::1", "192.168.0.1", "", "nonsense"])


def policy(text: str, actions: str, decision: PolicyDecision = PolicyDecision.ALLOW, *sources: str) -> Policy:
    return Policy(Resource.parse(text), frozenset(Action(word) for word in actions.split(",")), decision, sources)


def need(text: str, *actions: Action) -> Need:
    resource = Resource.parse(text)
    return Need(resource.kind, resource.name, actions)


@given(GRANTS, NEEDS, FROM)
def test_every_question_has_an_answer_and_a_policy_behind_it(grants: Grants, wanted: Need, source: str) -> None:
    judgement = judge(grants, wanted, source)
    if judgement.policy is None:
        assert not judgement.allowed
        assert not any(fits(one, wanted, source) for one in (*grants.custom, *grants.default))
    else:
        assert fits(judgement.policy, wanted, source)
        assert judgement.allowed == (judgement.policy.decision is PolicyDecision.ALLOW)


@given(GRANTS, NEEDS, FROM)
def test_without_policies_that_allow_nothing_is_allowed(grants: Grants, wanted: Need, source: str) -> None:
    denying = Grants(
        tuple(one for one in grants.custom if one.decision is PolicyDecision.DENY),
        tuple(one for one in grants.default if one.decision is PolicyDecision.DENY),
    )
    assert not judge(denying, wanted, source).allowed


@given(GRANTS, NEEDS, FROM)
def test_the_order_of_policies_does_not_matter(grants: Grants, wanted: Need, source: str) -> None:
    turned = Grants(grants.custom[::-1], grants.default[::-1])
    assert judge(turned, wanted, source).allowed == judge(grants, wanted, source).allowed


@given(GRANTS, NEEDS, FROM)
def test_a_denial_for_the_whole_name_wins(grants: Grants, wanted: Need, source: str) -> None:
    denial = Policy(Resource.parse(f"{wanted.kind.value}:{wanted.name}"), frozenset({Action.ALL}), PolicyDecision.DENY)
    assert not judge(Grants((*grants.custom, denial), grants.default), wanted, source).allowed


@given(GRANTS, NEEDS, FROM)
def test_one_more_policy_that_allows_takes_nothing_away(grants: Grants, wanted: Need, source: str) -> None:
    more = Grants((*grants.custom, policy("*", "All")), grants.default)
    if judge(grants, wanted, source).allowed:
        assert judge(more, wanted, source).allowed


@given(GRANTS, st.sampled_from(sorted(TRANSACTION_TOPICS)), FROM)
def test_undecided_messages_need_a_policy_with_their_name(grants: Grants, topic: str, source: str) -> None:
    judgement = judge(grants, Need(ResourceKind.TOPIC, topic, (Action.SUB,)), source)
    if judgement.allowed:
        assert judgement.policy is not None and judgement.policy.resource.text == f"Topic:{topic}"


@pytest.mark.parametrize(
    ("texts", "allowed"),
    [
        (["Topic:orders Allow"], True),
        (["Topic:order* Deny", "Topic:orders Allow"], True),
        (["Topic:orders Deny", "Topic:* Allow"], False),
        (["Topic:o* Allow", "Topic:order* Deny"], False),
        (["Topic:o* Deny", "Topic:order* Allow"], True),
        (["* Deny", "Topic:* Allow"], True),
        (["* Allow", "Topic:* Deny"], False),
        (["Topic:orders Allow", "Topic:orders Deny"], False),
        (["Group:orders Allow"], False),
        ([], False),
    ],
)
def test_the_most_exact_policy_decides(texts: list[str], allowed: bool) -> None:
    policies = tuple(policy(text.split()[0], "Pub", PolicyDecision(text.split()[1])) for text in texts)
    wanted = need("Topic:orders", Action.PUB)
    assert judge(Grants(policies), wanted, "10.0.0.1").allowed is allowed
    # Policies of the type Default count where none of the type Custom fits.
    assert judge(Grants((), policies), wanted, "10.0.0.1").allowed is allowed
    assert not judge(Grants((policy("*", "Pub", PolicyDecision.DENY),), policies), wanted, "10.0.0.1").allowed


def test_one_of_the_actions_is_enough_and_any_fits_every_policy() -> None:
    grants = Grants((policy("Topic:orders", "Pub"),))
    assert judge(grants, need("Topic:orders", Action.PUB, Action.SUB), "").allowed
    assert judge(grants, need("Topic:orders", Action.ANY), "").allowed
    assert not judge(grants, need("Topic:orders", Action.SUB, Action.GET), "").allowed
    assert judge(Grants((policy("Topic:orders", "All"),)), need("Topic:orders", Action.DELETE), "").allowed


@pytest.mark.parametrize(
    ("source", "allowed"),
    [("10.1.2.3", True), ("192.168.0.7", True), ("192.168.0.8", False), ("::ffff:10.1.2.3", True), ("", False)],
)
def test_a_policy_counts_from_its_addresses(source: str, allowed: bool) -> None:
    grants = Grants((policy("Topic:orders", "Pub", PolicyDecision.ALLOW, "10.0.0.0/8", "192.168.0.7"),))
    assert judge(grants, need("Topic:orders", Action.PUB), source).allowed is allowed
