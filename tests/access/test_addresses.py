"""Address patterns of 5.x and 4.x."""

from __future__ import annotations

import pytest

from gantrymq.access.addresses import in_range, pattern_4x
from gantrymq.errors import ConfigError
from gantrymq.runtime.addresses import host_of


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("10.10.103.*", ["10.10.103.7"], ["10.10.104.7", "::1", ""]),
        ("192.168.1-2.*", ["192.168.1.0", "192.168.2.255"], ["192.168.3.1"]),
        ("10.0.0.{1,4}", ["10.0.0.1", "10.0.0.4"], ["10.0.0.2", "10.0.0.14"]),
        ("10.0.0.1,10.0.0.9", ["10.0.0.1", "10.0.0.9"], ["10.0.0.2"]),
        ("10.0.0.1", ["10.0.0.1", "::ffff:10.0.0.1"], ["10.0.0.11"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2"]),
    ],
)
def test_a_pattern_of_plain_acl(pattern: str, inside: list[str], outside: list[str]) -> None:
    matches = pattern_4x(pattern)
    assert all(matches(source) for source in inside)
    assert not any(matches(source) for source in outside)


@pytest.mark.parametrize("pattern", ["10.0.*", "10.0.0.x-y", "10.0.0.{1,300}", "somewhere", "10.0.0.1-"])
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match=r"address"):
        pattern_4x(pattern)


def test_ranges_and_hosts() -> None:
    assert in_range("10.1.2.3", "10.0.0.0/8") and not in_range("11.1.2.3", "10.0.0.0/8")
    assert in_range("fe80::1", "fe80::/10") and not in_range("10.0.0.1", "fe80::/10")
    assert host_of("127.0.0.1:80") == "127.0.0.1" and host_of("[::1]:80") == "::1"
