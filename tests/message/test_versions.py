"""Names of versions, as Apache's 5.5.0 prints them."""

from __future__ import annotations

import pytest

from gantrymq.message.versions import VERSION, version_name

# From MQVersion.getVersionDesc of Apache's 5.5.0, for numbers at each edge.
PRINTED = {
    212: "V4_0_0_SNAPSHOT", 213: "V4_0_0", 231: "V4_0_9", 232: "V4_1_0_SNAPSHOT", 407: "V4_9_7", 409: "V4_9_8",
    411: "V4_9_9", 412: "V5_0_0_SNAPSHOT", 413: "V5_0_0", 513: "V5_5_0", 610: "V5_9_9_SNAPSHOT", 611: "V5_9_9",
    612: "HIGHER_VERSION", 9_999: "HIGHER_VERSION",
}  # fmt: skip


@pytest.mark.parametrize(("number", "name"), PRINTED.items())
def test_a_version_has_the_name_that_apache_prints(number: int, name: str) -> None:
    assert version_name(number) == name


def test_older_ones_and_nonsense_stay_numbers() -> None:
    assert [version_name(number) for number in (211, 0, -1)] == ["211", "0", "-1"]


def test_ours_is_the_one_that_we_are_compatible_with() -> None:
    assert version_name(VERSION) == "V5_5_0"
