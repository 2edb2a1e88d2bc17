"""pytest fixtures for tests of agents: an open runtime, a scripted model, and the story on failure.

Loaded in every pytest run where agent_lab is installed, so nothing of it is imported before a
fixture is used. The fixtures are plain functions: they work under pytest-asyncio, in auto and in
strict mode, and under anyio's plugin on asyncio.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agent_lab.application.agent import Agent
    from agent_lab.application.tools import Tool
    from agent_lab.bootstrap import DebugRuntime, Tape
    from agent_lab.domain.limits import Limits
    from agent_lab.testing import ScriptedModel

TAIL = 40
"""Entries of the journal in a failing test's report."""


class OpenRuntimes:
    """The runtimes that one test opened; call it to open one more."""

    def __init__(self) -> None:
        self.opened: list[DebugRuntime] = []

    def __call__(
        self,
        agent: Agent | None = None,
        *,
        model: Any = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        instructions: str | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> DebugRuntime:
        """An open runtime with this agent, or with one of this model and these tools.

        `options` go to DebugRuntime: `session_id`, `history`, `gate`, `outside`, `tape`. It closes
        when the test's coroutine ends.
        """
        from agent_lab.application.agent import Agent
        from agent_lab.bootstrap import DebugRuntime

        if (agent is None) == (model is None):
            raise TypeError("agent_lab_runtime takes an agent, or model= and tools=; give one")
        if agent is None:
            agent = Agent(
                "test", model=model, tools=tools, instructions=instructions, limits=limits
            )
        runtime = DebugRuntime(agent, **options)
        with suppress(StopIteration):
            runtime.__aenter__().send(None)  # entering awaits nothing, and this is no coroutine
        self.opened.append(runtime)
        return runtime

    async def close(self) -> None:
        """Close all, the newest first."""
        for runtime in reversed(self.opened):
            await runtime.close()


_RUNTIMES = pytest.StashKey[OpenRuntimes]()


@pytest.fixture
def agent_lab_runtime(request: pytest.FixtureRequest) -> Generator[OpenRuntimes]:
    """Opens runtimes: `agent_lab_runtime(agent)`, or `agent_lab_runtime(model=…, tools=[…])`.

    Each is closed when the test ends, in the test's own loop. If the test fails, its report shows
    the last entries of each journal.
    """
    runtimes = request.node.stash[_RUNTIMES] = OpenRuntimes()
    with pytest.MonkeyPatch.context() as patch:
        _close_in_test(request.node, runtimes, patch)
        yield runtimes


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--agent-lab-record` has `agent_lab_tape` record anew instead of playing."""
    group = parser.getgroup("agent_lab")
    group.addoption(
        "--agent-lab-record",
        action="store_true",
        help="record the cassettes of tests that use agent_lab_tape anew, over the network",
    )


@pytest.fixture
def agent_lab_tape(request: pytest.FixtureRequest) -> Tape:
    """The test's cassette, for `agent_lab_runtime(agent, tape=agent_lab_tape)`.

    Its folder is `cassettes/FILE/TEST` beside the test's file. It is played, with no network, or
    with `--agent-lab-record` written anew.
    """
    from agent_lab.bootstrap import open_tape

    name = re.sub(r"[^\w.-]+", "_", request.node.name).strip("_")
    folder = request.path.parent / "cassettes" / request.path.stem / name
    record = bool(request.config.getoption("--agent-lab-record"))
    if record:
        for old in folder.glob("[0-9][0-9][0-9][0-9].json"):
            old.unlink()
    return open_tape(folder, record=record)


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Makes scripted models: `scripted_model([reply("Hello.")], repeat_last=False)`."""

    def make(replies: Sequence[Any], *, repeat_last: bool = False) -> ScriptedModel:
        from agent_lab.testing import ScriptedModel

        return ScriptedModel(replies, repeat_last=repeat_last)

    return make


def _close_in_test(item: Any, runtimes: OpenRuntimes, patch: pytest.MonkeyPatch) -> None:
    """Wrap the test's coroutine, so that its runtimes close in the loop they live on.

    A fixture's own end is no place for it: whose loop runs then differs from plugin to plugin.
    """
    given = getattr(item.obj, "hypothesis", None)  # its inner test runs once an example
    owner, name = (item, "obj") if given is None else (given, "inner_test")
    test = getattr(owner, name)
    if not inspect.iscoroutinefunction(test):
        return

    @functools.wraps(test)
    async def closing(*args: Any, **kwargs: Any) -> Any:
        try:
            return await test(*args, **kwargs)
        finally:
            await runtimes.close()

    patch.setattr(owner, name, closing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the journal's tail of each runtime to a failing test's report."""
    report = yield
    runtimes = item.stash.get(_RUNTIMES, None)
    if report.failed and runtimes is not None:
        report.sections.extend(
            story for runtime in runtimes.opened if (story := _story(runtime)) is not None
        )
    return report


def _story(runtime: DebugRuntime) -> tuple[str, str] | None:
    """A section of the report: its title and a line an entry."""
    from agent_lab.domain.errors import NoEventLoop
    from agent_lab.presentation.terminal import one_line

    try:
        journal = runtime.session.journal
    except NoEventLoop:
        return None  # it was never started
    _, entries = journal.read(max(journal.last_seq - TAIL, 0))
    if not entries:
        return None
    lines = [one_line(entry, entries[0].at) for entry in entries]
    title = f"agent_lab: the last {len(entries)} of {journal.last_seq} entries"
    return f"{title} of {runtime.session_id} ({runtime.agent.name})", "\n".join(lines)
