"""Six faults, planted one by one in a copy of the package: the tests go red for each.

What is asked here is whether the tests look; a test that is named below and does not go red has
stopped looking. The unchanged copy is green.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(200)  # each is a pytest of its own, and all wait for two cores
ROOT = Path(__file__).parents[1]
RUN = """
import importlib.util, sys, pytest
found = importlib.util.find_spec("agent_lab").origin
assert found.startswith(sys.argv[1]), found
quick = "-qx --tb=line --assert=plain --noconftest -p no:cacheprovider"
known = "-p pytest_asyncio.plugin -p pytest_timeout"
sys.exit(pytest.main([*quick.split(), *known.split(), *sys.argv[2:]]))
"""
BOUNDARY, CLOSE, QUEUES, RUNTIME = (
    f"application/test_{name}.py::" for name in ("boundary", "close", "queues", "runtime")
)


@dataclass(frozen=True)
class Fault:
    """A piece of the source, what it becomes, and the fewest tests that go red."""

    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


FAULTS = {
    "release a held message before the last reply": Fault(
        "domain/conversation.py",
        """            self.inbox.take(message.message_id or "")
            return ()
""",
        """            self.inbox.take(message.message_id or "")
            batch = self.inbox.next_batch(in_turn=True) if self.calls.round else ()
            return [self.inbox.deliver(m, self.history, self.turn, self.step) for m in batch]
""",
        (f"{QUEUES}test_a_reply_never_waits_for_a_place",),
    ),
    "append a late reply to the history": Fault(
        "domain/conversation.py",
        """        return (self.calls.receive(message) or late(message, self.at),)
""",
        """        replied = self.calls.receive(message)
        if replied is None:
            self.history.append(message)
        return (replied or late(message, self.at),)
""",
        (f"{BOUNDARY}test_a_tool_that_swallows_one_cancellation_is_late_and_not_abandoned",),
    ),
    "pop a message, then lose it": Fault(
        "application/chat_agent.py",
        """                item = queue.get_nowait() if gate.hold is None else await queue.get()
""",
        """                item = queue.get_nowait() if gate.hold is None else await queue.get()
                await __import__("asyncio").sleep(0)
""",
        tuple(
            f"{QUEUES}test_a_message_behind_the_one_that_is_cancelled_starts_the_next_turn[{tick}]"
            for tick in range(12)
        ),
    ),
    "deliver a message twice": Fault(
        "domain/inbox.py",
        """        history.append(message)
""",
        """        history.extend((message, message))
""",
        (f"{RUNTIME}test_sessions_of_one_agent_do_not_meet",),
    ),
    "swallow a cancellation that came from outside": Fault(
        "application/nudge.py",
        """        return own > 0 and not self.task.cancelling()
""",
        """        return own > 0
""",
        tuple(
            f"{CLOSE}test_a_worker_cancelled_from_outside_and_nudged_in_one_tick_ends_the_session[{seed}]"
            for seed in range(5)
        ),
    ),
    "hold messages in the wrong order": Fault(
        "domain/inbox.py",
        """for key, m in self._waiting.items() if key in self.taken]
""",
        """for key, m in reversed(self._waiting.items()) if key in self.taken]
""",
        ("application/test_runtime.py::test_start_returns_at_once_with_the_same_queues_each_time",),
    ),
}
NONE = Fault("__init__.py", "", "", tuple(t for fault in FAULTS.values() for t in fault.tests))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[tuple[int, str]]]]:
    """Exit code and output of pytest against each copy; all run side by side."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            name: pool.submit(run, fault, tmp_path_factory.mktemp("copy"))
            for name, fault in {**FAULTS, "none": NONE}.items()
        }


def run(fault: Fault, folder: Path) -> tuple[int, str]:
    package = folder / "agent_lab"
    shutil.copytree(ROOT / "src" / "agent_lab", package, ignore=shutil.ignore_patterns("static"))
    file = package / fault.file
    text = file.read_text(encoding="utf-8")
    assert fault.right in text, f"{fault.file} was rewritten: plant {fault.wrong!r} anew"
    file.write_text(text.replace(fault.right, fault.wrong, 1) if fault.right else text, "utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *(f"tests/{test}" for test in fault.tests)],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # half of the time of such a short run
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("name", FAULTS)
def test_the_tests_go_red_for(name: str, runs: dict[str, Future[tuple[int, str]]]) -> None:
    code, output = runs[name].result()

    assert code == pytest.ExitCode.TESTS_FAILED and "1 failed" in output, output


def test_the_tests_are_green_for_an_unchanged_copy(
    runs: dict[str, Future[tuple[int, str]]],
) -> None:
    code, output = runs["none"].result()

    assert code == pytest.ExitCode.OK, output
