"""Writes ``deploy/grafana/gantry.json``, the dashboard for Grafana, from the table of its panels.

    python3 tools/dashboard.py            # a test compares the file with what this would write

Standard library only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "gantry.json"
WIDTH, HEIGHT = 8, 7
"""Of a panel; a row of Grafana's grid is 24 wide."""
RATE = "rate({}[$__rate_interval])"

Panel = tuple[str, str, str, list[tuple[str, str]]]
"""Title, unit of Grafana, what it is for, and the lines: expression and legend."""


SELECT = '{node_id=~"$broker"}'
LATENCY = "rocketmq_rpc_latency_milliseconds"
AT_ONCE = '{node_id=~"$broker", is_long_polling="false"}'
REFUSED = '{node_id=~"$broker", response_code!~"success|pull_.*|polling_.*|query_not_found"}'
"""Answers that say neither "here it is" nor "nothing new"."""


def rate(name: str, by: str = "node_id", labels: str = SELECT) -> str:
    return f"sum by ({by}) ({RATE.format(name + labels)})"


USERS = '{node_id=~"$broker", is_system="false"}'

ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Transactions",
        [
            ("Open transactions", "short", "By topic. They grow when nobody decides them.",
             [(f"sum by (topic) (rocketmq_half_messages{SELECT})", "{{topic}}")]),
            ("Age of the oldest open transaction", "s", "Over an hour, somebody must look at it.",
             [(f"gantry_oldest_half_message_age_seconds{SELECT}", "{{node_id}}")]),
            ("Parked transactions", "short", "They wait for a person.",
             [(f"gantry_parked_messages{SELECT}", "{{node_id}}")]),
            ("Groups without a producer", "short", "They have open transactions, and nobody can be asked.",
             [(f"gantry_groups_without_producer{SELECT}", "{{node_id}}")]),
            ("Decisions", "ops", "How transactions end, a second.",
             [(rate("rocketmq_commit_messages_total", "topic"), "commit {{topic}}"),
              (rate("rocketmq_rollback_messages_total", "topic"), "rollback {{topic}}")]),
            ("Check-backs", "ops", "Sent, without an answer, and with the answer UNKNOWN.",
             [(rate("gantry_transaction_checks_sent_total"), "sent {{node_id}}"),
              (rate("gantry_transaction_checks_unanswered_total"), "unanswered {{node_id}}"),
              (rate("gantry_transaction_unknowns_total"), "unknown {{node_id}}")]),
            ("What should not happen", "short", "Parked, contradicting and not stored decisions, in an hour.",
             [(f"increase(gantry_transaction_{name}_total{SELECT}[1h])", f"{name} {{{{node_id}}}}")
              for name in ("parked", "conflicts", "failed", "refused")]),
        ],
    ),
    (
        "Messages",
        [
            ("Messages in", "ops", "Messages of users that became visible, a second.",
             [(f"sum by (topic) ({RATE.format('rocketmq_messages_in_total' + USERS)})", "{{topic}}")]),
            ("Messages out", "ops", "Messages that groups got, a second.",
             [(f"sum by (consumer_group) ({RATE.format('rocketmq_messages_out_total' + USERS)})",
               "{{consumer_group}}")]),
            ("Messages behind", "short", "What a group has not consumed yet.",
             [(f"sum by (consumer_group, topic) (rocketmq_consumer_lag_messages{USERS})",
               "{{consumer_group}} {{topic}}")]),
            ("Given up", "ops", "Messages that went to a dead-letter queue, a second.",
             [(rate("rocketmq_send_to_dlq_messages_total", "consumer_group"), "{{consumer_group}}")]),
            ("Clients", "short", "Members of groups that are online.",
             [(f"sum(rocketmq_producer_connections{SELECT})", "producers"),
              (f"sum(rocketmq_consumer_connections{SELECT})", "consumers")]),
            ("Store", "bytes", "Size of the log, and what is not yet synced or visible.",
             [(f"rocketmq_storage_size_bytes{SELECT}", "log {{node_id}}"),
              (f"rocketmq_storage_flush_behind_bytes{SELECT}", "not synced {{node_id}}"),
              (f"rocketmq_storage_dispatch_behind_bytes{SELECT}", "not visible {{node_id}}")]),
            ("Disk", "percentunit", "Used share of the file systems, and where messages are refused.",
             [(f"gantry_disk_used_ratio{SELECT}", "{{directory}} {{node_id}}"),
              (f"gantry_disk_limit_ratio{SELECT}", "limit {{node_id}}")]),
            ("Reserve", "bytes", "For decisions on a full disk: what it has and should have.",
             [(f"gantry_disk_reserve_bytes{SELECT}", "has {{node_id}}"),
              (f"gantry_disk_reserve_wanted_bytes{SELECT}", "wanted {{node_id}}")]),
            ("Refused writes", "ops", "By use and reason, a second.",
             [(rate("gantry_writes_refused_total", "use, reason"), "{{use}} {{reason}}")]),
        ],
    ),
    (
        "Requests",
        [
            ("Requests", "reqps", "By kind, answered or one-way.",
             [(rate(LATENCY + "_count", "request_code"), "{{request_code}}")]),
            ("Slowest one in a hundred", "ms", "Time to the answer; requests that wait for a message are left out.",
             [(f"histogram_quantile(0.99, {rate(LATENCY + '_bucket', 'request_code, le', AT_ONCE)})",
               "{{request_code}}")]),
            ("Refused requests", "reqps", "By the code of the answer.",
             [(rate(LATENCY + "_count", "response_code", REFUSED), "{{response_code}}")]),
        ],
    ),
]  # fmt: skip


def panel(number: int, place: tuple[int, int], about: Panel) -> dict[str, Any]:
    title, unit, text, lines = about
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "description": text,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": place[0], "y": place[1], "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(lines)
        ],
    }


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, abouts in ROWS:
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
             "gridPos": {"x": 0, "y": top, "w": 24, "h": 1}}
        )  # fmt: skip
        top += 1
        for index, about in enumerate(abouts):
            place = (index % 3 * WIDTH, top + index // 3 * HEIGHT)
            panels.append(panel(len(panels) + 1, place, about))
        top += -(-len(abouts) // 3) * HEIGHT
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    broker = {
        "name": "broker", "label": "Broker", "type": "query", "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": "label_values(rocketmq_topic_number, node_id)", "includeAll": True, "multi": True, "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip
    return {
        "uid": "gantrymq", "title": "GantryMQ", "tags": ["gantrymq", "rocketmq"], "schemaVersion": 39, "version": 1,
        "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "", "editable": True,
        "templating": {"list": [source, broker]}, "panels": panels,
    }  # fmt: skip


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
