"""Which files of a table count, and how often a row is written again."""

from __future__ import annotations

import random

from gantrymq.spark.pipelines.pieces import Piece, live, merged, to_merge


def test_a_name_says_everything_about_a_piece() -> None:
    piece = Piece("3f6c-77", 7, 42, 1500)
    assert piece.name == "0000000007-0000000042-1500-3f6c-77.parquet"
    assert Piece.of(piece.name, published=False) == piece
    assert Piece.of(piece.name + ".tmp", published=False) is None
    assert Piece.of("_table.json", published=True) is None


def test_the_widest_piece_replaces_those_inside_it() -> None:
    small = [Piece("q", number, number, 1) for number in range(6)]
    other = Piece("p", 2, 2, 1)
    wide, wider = Piece("q", 1, 3, 3), Piece("q", 0, 4, 5, published=True)
    assert live([*small, other]) == [other, *small]
    assert live([*small, other, wide]) == [other, small[0], wide, small[4], small[5]]
    assert live([*small, other, wide, wider]) == [other, wider, small[5]]
    assert live([Piece("q", 1, 1, 1), Piece("q", 1, 1, 1, published=True)]) == [Piece("q", 1, 1, 1, published=True)]


def test_merging_keeps_few_files_and_writes_a_row_seldom() -> None:
    """5000 batches, some of them empty: at most 32 pieces of each width, and a row is written again once per width."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    pieces: list[Piece] = []
    written = total = most = 0
    for batch in range(5000):
        if chance.random() < 0.8:
            pieces.append(Piece("q", batch, batch, 10))
            total += 10
            if some := to_merge(pieces):
                pieces = [*(one for one in pieces if one not in some), merged(some)]
                written += sum(one.rows for one in some)
        most = max(most, len(pieces))
    assert sum(piece.rows for piece in pieces) == total
    assert most <= 32 * 3
    assert written <= 2 * total
