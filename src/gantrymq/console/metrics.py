"""What the console counts of itself: requests for its pages, what people did, log-ins, and questions that failed.

No metric has a label with the name of a person, a topic or a group, so that they can be read by whoever watches
machines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from gantrymq.admin.audit import Phase
from gantrymq.console.sessions import Sessions
from gantrymq.errors import GantryError, RequestRejected, TimedOut, Unreachable
from gantrymq.observability.metrics import Histogram, Metric, MetricKind, Metrics, single
from gantrymq.protocol.codes import ResponseCode

BOUNDS_MS: Final = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
REQUESTS: Final[Metric] = Metric(
    "gantry_console_requests_total", MetricKind.COUNTER, "requests", ("page", "status"),
    "Requests by page and status of HTTP; the page other stands for what a request did not reach.",
)  # fmt: skip
LATENCY: Final[Metric] = Metric(
    "gantry_console_request_latency", MetricKind.HISTOGRAM, "milliseconds", ("page",),
    "Time until the answer began; of a page that refreshes itself, until its first part.",
)  # fmt: skip
ACTIONS: Final[Metric] = Metric(
    "gantry_console_actions_total", MetricKind.COUNTER, "actions", ("action", "outcome"),
    "What people changed: done, refused by a broker, or unknown when no answer came; as in the audit file.",
)  # fmt: skip
LOGINS: Final[Metric] = Metric(
    "gantry_console_logins_total", MetricKind.COUNTER, "attempts", ("outcome",),
    "Attempts to log in: done, refused (wrong name or password), limited (too many before), failed (nobody could say).",
)  # fmt: skip
SESSIONS: Final[Metric] = Metric(
    "gantry_console_sessions", MetricKind.GAUGE, "sessions", (), "Sessions of people who are logged in."
)
QUESTIONS_FAILED: Final[Metric] = Metric(
    "gantry_console_questions_failed_total", MetricKind.COUNTER, "requests", ("reason",),
    "Questions to name servers and brokers that failed: unreachable, timed_out, denied (permission), refused, other.",
)  # fmt: skip

DONE, REFUSED, LIMITED, FAILED = "done", "refused", "limited", "failed"
OUTCOMES: Final = (Phase.DONE, Phase.REFUSED, Phase.UNKNOWN)


@dataclass(slots=True)
class Figures:
    """Counts of one process."""

    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    latency: dict[str, Histogram] = field(default_factory=dict)
    actions: Counter[tuple[str, str]] = field(default_factory=Counter)
    logins: Counter[str] = field(default_factory=lambda: Counter({DONE: 0, REFUSED: 0, LIMITED: 0, FAILED: 0}))
    failed: Counter[str] = field(default_factory=Counter)

    def answered(self, page: str, status: int, taken_ms: float) -> None:
        """A request was answered."""
        self.requests[page, str(status)] += 1
        histogram = self.latency.get(page)
        if histogram is None:
            histogram = self.latency[page] = Histogram(BOUNDS_MS)
        histogram.observe(taken_ms)

    def noted(self, action: str, phase: Phase) -> None:
        """The audit file has a line more."""
        if phase in OUTCOMES:
            self.actions[action, str(phase)] += 1

    def question_failed(self, error: GantryError) -> None:
        """A name server or a broker did not answer a question."""
        self.failed[reason_of(error)] += 1


def reason_of(error: GantryError) -> str:
    if isinstance(error, Unreachable):
        return "unreachable"
    if isinstance(error, TimedOut):
        return "timed_out"
    if isinstance(error, RequestRejected):
        return "denied" if error.code == ResponseCode.NO_PERMISSION else "refused"
    return "other"


def metrics_of(figures: Figures, sessions: Sessions) -> Metrics:
    """All metrics of one console."""
    metrics = Metrics()
    metrics.declare(REQUESTS, lambda: sorted(figures.requests.items()))
    metrics.declare(LATENCY, lambda: [((page,), taken) for page, taken in sorted(figures.latency.items())])
    metrics.declare(ACTIONS, lambda: sorted(figures.actions.items()))
    metrics.declare(LOGINS, lambda: [((outcome,), count) for outcome, count in figures.logins.items()])
    metrics.declare(SESSIONS, single(lambda: len(sessions.open())))
    metrics.declare(QUESTIONS_FAILED, lambda: [((reason,), count) for reason, count in sorted(figures.failed.items())])
    return metrics


def common_labels() -> dict[str, str]:
    """The labels that every metric has."""
    return {"node_type": "console"}
