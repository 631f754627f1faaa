"""``gantry`` with renewals that come three times as often, so that a test of them does not take minutes."""

from __future__ import annotations

from gantrymq.broker.grpc import deliveries, receiving
from gantrymq.cli.main import main

deliveries.RENEWED_FOR_MS = receiving.RENEWED_INVISIBLE_MS = 20_000  # type: ignore[misc]
deliveries.BEFORE_END_MS = 14_000  # type: ignore[misc]

if __name__ == "__main__":
    main()
