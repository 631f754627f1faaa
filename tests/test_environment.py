"""What conftest.py promises about environment variables. The tests run in the order of this file."""

from __future__ import annotations

import os

import pytest

NAMES = ("GANTRY_ACCESS_KEY", "GANTRY_TESTED")


@pytest.fixture(scope="module", autouse=True)
def none_is_set() -> None:
    assert not any(name in os.environ for name in NAMES)


def test_a_test_that_leaves_variables() -> None:
    os.environ["GANTRY_ACCESS_KEY"] = "admin"
    os.environ["GANTRY_TESTED"] = "1"


def test_they_are_gone_in_the_next_one() -> None:
    assert not any(name in os.environ for name in NAMES)
