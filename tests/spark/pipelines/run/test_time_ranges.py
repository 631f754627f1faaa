"""Which time ranges a backfill takes."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.run.backfill import SETTLED_MS, check_over

NOW_MS = 1_767_225_600_000


def test_a_range_that_is_not_over_is_refused() -> None:
    """It would count as complete, and messages that are stored in it later would be in no table."""
    check_over(NOW_MS - SETTLED_MS, NOW_MS)
    with pytest.raises(ConfigError, match=r"\(--to\) must be a minute ago.* up to 2025-12-31T23:59:00\+00:00;"):
        check_over(NOW_MS - SETTLED_MS + 1, NOW_MS)
