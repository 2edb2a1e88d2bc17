"""`GET /metrics`: the line in Prometheus' text, in a registry of its own."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from agent_lab.application.agents import Agents
from agent_lab.application.executions import Change, Declined, Ended, Started
from agent_lab.application.leftovers import Abandoned
from agent_lab.domain.execution import Execution

BUCKETS = (0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600)
"""Seconds."""
_BY = ("agent", "kind", "source")


class Metrics:
    """Counts what the line tells. Depths are read when somebody scrapes."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._registry = registry = CollectorRegistry()
        self._wait = Histogram(
            "agent_lab_wait_seconds", "From the request to its slot", _BY,
            registry=registry, buckets=BUCKETS,
        )  # fmt: skip
        self._run = Histogram(
            "agent_lab_run_seconds", "From the slot to the end", _BY,
            registry=registry, buckets=BUCKETS,
        )  # fmt: skip
        self._ended = Counter(
            "agent_lab_executions", "Executions that have their end", (*_BY, "status"),
            registry=registry,
        )  # fmt: skip
        self._refused = Counter(
            "agent_lab_refusals", "Requests that were refused", (*_BY, "code"), registry=registry
        )
        registry.register(self)
        agents.line.book.listen(self._hear)

    def text(self) -> tuple[bytes, str]:
        """What a scrape gets, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """How many wait and run now, and work that was left behind."""
        depth = GaugeMetricFamily("agent_lab_queue_depth", "Who waits", labels=_BY)
        running = GaugeMetricFamily("agent_lab_running", "Who runs", labels=_BY)
        counted: dict[tuple[str, str, str], list[int]] = {}
        for execution in self._agents.line.book.live:
            key = execution.agent_name, execution.kind, execution.source
            counted.setdefault(key, [0, 0])[execution.status == "running"] += 1
        for key, (waits, runs) in sorted(counted.items()):
            depth.add_metric(key, waits)
            running.add_metric(key, runs)
        yield depth
        yield running
        yield self._abandoned()

    def _abandoned(self) -> Metric:
        """By agent and kind; every agent has its lines, so that a zero is a zero."""
        left = GaugeMetricFamily(
            "agent_lab_abandoned", "Work that ignored its end", labels=("agent", "kind")
        )
        counted = {name: Abandoned() for name in self._agents.names}
        for served in self._agents.kept.haunted:
            mine = counted.setdefault(served.agent.name, Abandoned())
            its = served.runtime.session.abandoned
            mine.tasks += its.tasks
            mine.threads += its.threads
            mine.programs += its.programs
        for name, one in counted.items():
            left.add_metric((name, "task"), one.tasks)
            left.add_metric((name, "thread"), one.threads)
            left.add_metric((name, "program"), one.programs)
        return left

    def _hear(self, change: Change) -> None:
        match change:
            case Started(execution):
                waited = (execution.started_at or 0.0) - execution.queued_at
                self._wait.labels(*_labels(execution)).observe(max(waited, 0.0))
            case Ended(execution):
                self._ended.labels(*_labels(execution), execution.status).inc()
                if execution.started_at is not None:
                    took = (execution.finished_at or 0.0) - execution.started_at
                    self._run.labels(*_labels(execution)).observe(max(took, 0.0))
            case Declined():
                by = change.agent_name, change.kind, change.source
                self._refused.labels(*by, change.code).inc()
            case _:
                pass


def _labels(execution: Execution) -> tuple[str, str, str]:
    return execution.agent_name, execution.kind, execution.source
