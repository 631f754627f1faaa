"""Metrics in Prometheus' text format, by prometheus-client, which is loaded with the first scrape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gantrymq.observability.metrics import Family, Histogram, MetricKind, Metrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric as PrometheusMetric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Exposition:
    """A collector over the metrics of a broker."""

    def __init__(self, metrics: Metrics, common: Mapping[str, str]) -> None:
        """``common``: the labels that every metric has."""
        self._metrics = metrics
        self._common = dict(common)

    def steps(self) -> Iterator[bytes]:
        """``text`` in small steps, for ``runtime.stepwise``: pieces that are joined, some of them empty."""
        from prometheus_client.exposition import generate_latest

        for family in self._metrics.steps():
            if family is None:
                yield b""
                continue
            for found in self._of(family):
                yield generate_latest(_Only(found))

    def text(self) -> bytes:
        """Everything, now, in version 0.0.4 of the format."""
        # Not at the top: it takes memory and a start's time, and most brokers are never scraped.
        from prometheus_client.exposition import generate_latest

        return generate_latest(self)

    def collect(self) -> Iterator[PrometheusMetric]:
        """What prometheus-client asks of a collector."""
        for family in self._metrics.families():
            yield from self._of(family)

    def _of(self, family: Family) -> Iterator[PrometheusMetric]:
        yield self._converted(family, family.metric.name, family.metric.help)
        if family.metric.before:
            yield self._converted(family, family.metric.before, f"Old name of {family.metric.name}.")

    def _converted(self, family: Family, name: str, meaning: str) -> PrometheusMetric:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        metric = family.metric
        labels = (*self._common, *metric.labels)
        text = f"{meaning} Unit: {metric.unit}." if metric.unit else meaning
        found: PrometheusMetric
        if metric.kind is MetricKind.HISTOGRAM:
            found = HistogramMetricFamily(name, text, labels=labels)
        elif metric.kind is MetricKind.COUNTER:
            found = CounterMetricFamily(name, text, labels=labels)
        else:
            found = GaugeMetricFamily(name, text, labels=labels)
        for values, value in family.readings:
            named = dict(zip(labels, (*self._common.values(), *values), strict=True))
            if isinstance(value, Histogram):
                for bound, count in value.cumulative():
                    end = "+Inf" if bound == float("inf") else repr(float(bound))
                    found.add_sample(f"{name}_bucket", {**named, "le": end}, count)
                found.add_sample(f"{name}_count", named, sum(value.counts))
                found.add_sample(f"{name}_sum", named, value.sum)
            else:
                found.add_sample(name, named, value)
        return found


class _Only:
    """A collector with one metric."""

    def __init__(self, metric: PrometheusMetric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[PrometheusMetric]:
        yield self._metric
