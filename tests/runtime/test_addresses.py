"""Addresses as text, and that nothing else puts them together or takes them apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.runtime import addresses
from gantrymq.runtime.addresses import address_of, host_of, host_without_port, is_loopback, numeric, split_address

SOURCE = Path(addresses.__file__).parents[1]
HOMES = ("runtime/addresses.py", "protocol/hosts.py")
"""The second one packs and unpacks the addresses in records."""
BY_HAND = (
    re.compile(r"""\{[^{}]*(?:host|addr|address|_ip1?|known_as)(?:\(\))?\}:\{"""),
    re.compile(r"""(?:address|peer|host|server|local)\.(?:r?partition|r?split)\(":"""),
)
HOSTS = st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True))


@given(HOSTS, st.integers(0, 65_535))
def test_an_address_is_taken_apart_as_it_was_put_together(host: str, port: int) -> None:
    text = address_of(host, port)
    assert split_address(text) == (host, port)
    assert host_of(text) == host_without_port(text) == host
    assert address_of(f"[{host}]" if ":" in host else host, port) == text


@pytest.mark.parametrize(
    ("host", "text"),
    [("10.0.0.1", "10.0.0.1:9"), ("::1", "[::1]:9"), ("[::1]", "[::1]:9"), ("names.example", "names.example:9")],
)
def test_an_ipv6_address_is_in_brackets(host: str, text: str) -> None:
    assert address_of(host, 9) == text


@pytest.mark.parametrize("text", ["", "host", ":9", "host:", "host:x", "host:65536", "host:²", "host:" + "9" * 5000])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        split_address(text)


def test_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "")))
    assert numeric("names.example") is None and str(numeric("[::1]")) == "::1"


def test_nothing_else_makes_or_splits_addresses() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in HOMES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if any(pattern.search(line) for pattern in BY_HAND)
    ]
    assert not found, "use gantrymq.runtime.addresses:\n" + "\n".join(found)
    assert any(pattern.search('f"{host}:{port}"') for pattern in BY_HAND)  # the patterns find something
