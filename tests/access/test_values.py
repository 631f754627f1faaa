"""Resources and policies as people write them."""

from __future__ import annotations

import pytest

from gantrymq.access.values import Action, Pattern, Policy, PolicyDecision, Resource, ResourceKind, User, named
from gantrymq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("*", Resource(ResourceKind.ANY, Pattern.ANY)),
        ("Topic:*", Resource(ResourceKind.TOPIC, Pattern.ANY)),
        ("Topic:orders", Resource(ResourceKind.TOPIC, Pattern.LITERAL, "orders")),
        ("Group:app-*", Resource(ResourceKind.GROUP, Pattern.PREFIXED, "app-")),
        ("Cluster:DefaultCluster", Resource(ResourceKind.CLUSTER, Pattern.LITERAL, "DefaultCluster")),
        ("Topic:%DLQ%G", Resource(ResourceKind.TOPIC, Pattern.LITERAL, "%DLQ%G")),
    ],
)
def test_a_resource_is_read_and_written(text: str, resource: Resource) -> None:
    assert Resource.parse(text) == resource
    assert resource.text == text
    assert Resource.parse(f" {text.lower() if text.startswith('C') else text} ").kind is resource.kind


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Queue:x", "Topic:a*b", "Any:x", ":x", "Topic:**"])
def test_what_names_no_resource_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ConfigError, match="write"):
        Resource.parse(text)


def test_a_policy_that_cannot_be_is_refused() -> None:
    orders = Resource.parse("Topic:orders")
    with pytest.raises(ConfigError, match="no actions"):
        Policy(orders, frozenset(), PolicyDecision.ALLOW).check()
    with pytest.raises(ConfigError, match="write All"):
        Policy(orders, frozenset({Action.ANY}), PolicyDecision.ALLOW).check()
    with pytest.raises(ConfigError, match="IP address"):
        Policy(orders, frozenset({Action.PUB}), PolicyDecision.ALLOW, ("somewhere",)).check()


def test_words_are_read_in_any_letters_and_unknown_ones_are_listed() -> None:
    assert named(Action, "pUB", "the action") is Action.PUB
    with pytest.raises(ConfigError, match="Pub, Sub"):
        named(Action, "Read", "the action")


def test_a_user_is_never_printed_with_the_secret() -> None:
    assert "hush" not in repr(User("app", "hush"))
