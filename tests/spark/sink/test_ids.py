from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError
from gantrymq.spark.sink.ids import KEY_CHARACTERS, Attempt, BatchId, attempt_of, query_digits, unique_keys

DIGITS = st.text("0123456789ABCDEF", min_size=16, max_size=16)
ATTEMPTS = st.builds(Attempt, st.builds(BatchId, DIGITS, st.integers(0, 2**32 - 1)), DIGITS)


@given(ATTEMPTS, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5))
def test_an_id_names_its_attempt_and_its_row(attempt: Attempt, rows: list[int]) -> None:
    keys = [key.decode() for key in unique_keys(attempt.prefix, np.array(rows, dtype=np.uint32))]
    assert [int(key[-8:], 16) for key in keys] == rows
    assert {attempt_of(key) for key in keys} == {attempt}
    assert {len(key) for key in keys} == {KEY_CHARACTERS}


@pytest.mark.parametrize("key", ["", "7F0000010A2B18B4AAC20", "0" * 47, "0" * 49, "g" * 48])
def test_ids_of_others_name_no_attempt(key: str) -> None:
    assert attempt_of(key) is None


def test_a_query_has_the_same_digits_in_every_process() -> None:
    assert query_digits("f1b2") == "E94E2570D49DB4AF"


def test_a_batch_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not fit"):
        BatchId("0" * 16, 2**32)
