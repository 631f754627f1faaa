"""The texts from which clients build receipt handles."""

from __future__ import annotations

from gantrymq.protocol.pop_texts import message_offset_info, order_count_info, start_offset_info


def test_the_texts_of_an_answer() -> None:
    assert start_offset_info([("0", 1, 5), ("1", 0, 9)]) == "0 1 5;1 0 9"
    assert message_offset_info([("0", 1, [5, 7]), ("1", 0, [9])]) == "0 1 5,7;1 0 9"
    assert order_count_info([("0", 1, [5, 7], {5: 2}), ("0", 2, [1], {1: 3})]) == "0 qo1%5 2;0 1 0;0 qo2%1 3;0 2 3"
