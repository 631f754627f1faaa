"""``python -m benchmarks.spark_plot SOURCE.json FILE.svg``: draws the result of ``benchmarks.spark_source`` as bars."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 860
NAMES: Final = 270
FIGURES: Final = 190
BAR: Final = 20
TOP: Final = 40
FONT: Final = 'font-family="sans-serif" font-size="12" fill="#222"'
OURS: Final = "#0b6e99"
OTHERS: Final = "#999"
_OTHERS: Final = ("Kafka", "Arrow", "Parquet")


def draw(result: Mapping[str, Any]) -> str:
    """The picture as SVG: processor time for a row, because other programs on the machine change it least."""
    rows = {name: row for name, row in result["rows"].items() if not name.startswith(("bare", "pull", "large"))}
    most = max(row["cpu_us"] for row in rows.values())
    height = TOP + BAR * len(rows) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" {FONT}>',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{NAMES}" y="18" font-weight="bold">processor time for a row, microseconds (less is better)</text>',
    ]
    for number, (name, row) in enumerate(rows.items()):
        y, length = TOP + BAR * number, (WIDTH - NAMES - FIGURES) * row["cpu_us"] / most
        color = OTHERS if name.startswith(_OTHERS) else OURS
        text = f"{row['cpu_us']:.2f}   ({row['rows_per_second']:,} rows/s)"
        parts += [
            f'<text x="{NAMES - 8}" y="{y + 12}" text-anchor="end">{name}</text>',
            f'<rect x="{NAMES}" y="{y}" width="{length:.1f}" height="{BAR - 5}" fill="{color}"/>',
            f'<text x="{NAMES + length + 6:.1f}" y="{y + 12}">{text}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    source, target = sys.argv[1:]
    Path(target).write_text(draw(json.loads(Path(source).read_text())))


if __name__ == "__main__":
    main()
