from __future__ import annotations

import pytest

from gantrymq.message.transaction import LocalTransactionState, Resolution


@pytest.mark.parametrize(
    ("state", "resolution", "number"),
    [
        (LocalTransactionState.COMMIT, Resolution.COMMIT, 8),
        (LocalTransactionState.ROLLBACK, Resolution.ROLLBACK, 12),
        (LocalTransactionState.UNKNOWN, Resolution.UNKNOWN, 0),
    ],
)
def test_what_a_listener_says_and_what_is_sent(
    state: LocalTransactionState, resolution: Resolution, number: int
) -> None:
    """Source: docs/protocol.md#transactions."""
    assert state.resolution is resolution
    assert resolution == number
