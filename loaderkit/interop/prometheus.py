"""Prometheus: a loader's counters for prometheus_client."""

from loaderkit.observe.prometheus import PrometheusCollector

__all__ = ["PrometheusCollector"]
