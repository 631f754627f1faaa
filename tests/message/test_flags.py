from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import flags

KINDS = [0, flags.PREPARED, flags.COMMITTED, flags.ROLLED_BACK]


@given(st.integers(0, 2**31 - 1), st.sampled_from(KINDS))
def test_the_transaction_kind_is_replaced_and_nothing_else(sys_flag: int, kind: int) -> None:
    changed = flags.with_transaction_type(sys_flag, kind)
    assert flags.transaction_type(changed) == kind
    assert changed & ~flags.TRANSACTION_MASK == sys_flag & ~flags.TRANSACTION_MASK


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (flags.COMPRESSED | flags.COMPRESSION_ZLIB, 0x301),
        (flags.TRANSACTION_MASK, 0xC),
        (flags.BORN_HOST_V6, 0x10),
        (flags.STORE_HOST_V6, 0x20),
    ],
)
def test_bits_are_those_of_rocketmq(value: int, bits: int) -> None:
    """Source: docs/protocol.md#system-flag."""
    assert value == bits
