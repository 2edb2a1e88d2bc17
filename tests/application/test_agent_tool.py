"""An agent as another agent's tool: in a script, and through the lines of served agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from agent_lab import Agent, DebugRuntime, agent_tool
from agent_lab.application.agents import Agents
from agent_lab.application.line import Asked
from agent_lab.application.served import ServedSession
from agent_lab.bootstrap import open_agents
from agent_lab.domain.errors import NotAdmitted
from agent_lab.domain.execution import Asker, Execution, Outcome
from agent_lab.domain.limits import LineLimits
from agent_lab.domain.messages import ChatMessage, ModelRequest
from agent_lab.domain.payloads import AnyPayload
from agent_lab.testing import ScriptedModel, SeededOutside, call, open_runtime, reply
from tests.application.helpers_runtime import assert_valid, said, settled, simulated, until

Script = Sequence[Any]


def asks(name: str, message: str = "go", *, id_: str = "c1") -> Any:
    """An answer that asks the agent of this name."""
    return reply(calls=[call(f"ask_{name}", id_, message=message)])


def agent(name: str, *script: Any, others: Sequence[Any] = (), **options: Any) -> Agent:
    """An agent that says this, and may ask these others."""
    tools = [one if not isinstance(one, Agent | str) else agent_tool(one) for one in others]
    model = ScriptedModel(script or [f"{name} says so"], repeat_last=True)
    return Agent(name, model=model, tools=tools, **options)


class Patient:
    """A model that answers when the test says so."""

    name, dialect = "patient", "openai_chat"

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.door = asyncio.Event()

    async def __call__(self, request: ModelRequest) -> str:
        self.begun.set()
        await self.door.wait()
        return "at last"


@asynccontextmanager
async def served(*agents: Agent, line: LineLimits | None = None) -> AsyncIterator[Agents]:
    async with open_agents(agents, line=line, outside=SeededOutside()) as opened:
        yield opened


def open_session(agents: Agents, name: str, content: str = "go") -> ServedSession:
    """A session of the page's kind, which takes no slot."""
    return agents.run(name, ChatMessage("user", content)).session


def runtime_of(served: ServedSession) -> DebugRuntime:
    assert isinstance(served.runtime, DebugRuntime)
    return served.runtime


async def replies(session: ServedSession) -> list[Any]:
    """The tool replies of a session, at its rest; waiting costs nothing here."""
    await settled(runtime_of(session), seconds=2000)
    assert_valid(runtime_of(session))
    return said(runtime_of(session), "tool_reply")


def executions(agents: Agents) -> list[Execution]:
    """What was asked through the lines, in order."""
    return sorted(agents.line.book.kept, key=lambda one: one.id)


# -- in a script ---------------------------------------------------------------------------------


@simulated
async def test_in_a_script_the_agent_answers_in_a_session_of_its_own() -> None:
    parent = agent("boss", asks("clerk"), "Thanks.", others=[agent("clerk", "Done.")])
    async with open_runtime(parent) as runtime:
        runtime.start("go")
        await settled(runtime)

        assert [(r.name, r.kind, r.content) for r in said(runtime, "tool_reply")] == [
            ("ask_clerk", "result", "Done.")
        ]
        (schema,) = parent.schemas
        assert list(schema.parameters["properties"]) == ["message"]


@simulated
@pytest.mark.scenario("S64")
async def test_in_a_script_a_chain_that_is_too_deep_is_refused() -> None:
    deepest = agent("a6", "never")
    for number in range(5, -1, -1):
        deepest = agent(f"a{number}", asks(deepest.name), "ok", others=[deepest])
    async with open_runtime(deepest) as runtime:
        runtime.start("go")
        await settled(runtime)
        assert said(runtime, "tool_reply")[0].content == "ok"


@simulated
@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (lambda: agent_tool("clerk"), "needs `agent-lab serve`"),
        (lambda: agent_tool(agent("clerk"), background=True), "needs `agent-lab serve`"),
        (lambda: agent_tool(Agent("clerk", model=_broken)), "no words"),
    ],
    ids=["named", "background", "broken"],
)
async def test_in_a_script_what_cannot_be_is_told_to_the_model(
    other: Callable[[], Any], wanted: str
) -> None:
    async with open_runtime(agent("boss", asks("clerk"), "ok", others=[other()])) as runtime:
        runtime.start("go")
        await settled(runtime)
        (told,) = said(runtime, "tool_reply")

        assert told.kind == "error"
        assert told.content.startswith("Error: agent 'clerk' gave no answer: ")
        assert wanted in told.content


def _broken(request: ModelRequest) -> str:
    raise ValueError("no words")


@simulated
async def test_in_a_script_a_cancel_ends_the_child_with_its_parent() -> None:
    model = Patient()
    child = Agent("clerk", model=model)
    async with open_runtime(agent("boss", asks("clerk"), "ok", others=[child])) as runtime:
        runtime.start("go")
        await asyncio.wait_for(model.begun.wait(), 5)
        runtime.cancel()
        await runtime.close()

        assert said(runtime, "tool_reply")[0].kind == "cancelled"
        assert runtime.session.abandoned.tasks == 0
    assert [task for task in asyncio.all_tasks() if "agent_lab" in task.get_name()] == []


# -- through the line ----------------------------------------------------------------------------


@simulated
async def test_served_it_is_one_execution_of_source_agent_in_the_agents_conversation() -> None:
    clerk = agent("clerk", "Done.")
    async with served(agent("boss", asks("clerk"), "Thanks.", others=[clerk])) as agents:
        session = open_session(agents, "boss")
        (told,) = await replies(session)
        (execution,) = executions(agents)

        assert (told.kind, told.content) == ("result", "Done.")
        assert (execution.agent_name, execution.kind, execution.status) == (
            *("clerk", "chat", "completed"),
        )
        assert (execution.source, execution.source_agent, execution.ancestors) == (
            *("agent", "boss", ("boss",)),
        )
        assert execution.session_id == "chat:clerk"
        assert execution.triggered_by == "tool:ask_clerk"
        assert agents.names == ["boss", "clerk"]
        assert agents.get().name == "boss"
        assert await agents.line.check() == []


@simulated
async def test_parallel_it_is_a_task_beside_the_conversation() -> None:
    clerk = agent("clerk", "Done.")
    boss = agent("boss", asks("clerk"), "ok", others=[agent_tool(clerk, parallel=True)])
    async with served(boss) as agents:
        (told,) = await replies(open_session(agents, "boss"))
        (execution,) = executions(agents)

        assert (told.content, execution.kind) == ("Done.", "task")
        assert execution.session_id != "chat:clerk"


@pytest.mark.scenario("S64")
@simulated
async def test_a_circle_is_refused_at_once_and_the_turns_end() -> None:
    first = agent("a", asks("b"), "a is done", others=[agent_tool("b")])
    second = agent("b", asks("a"), "b is done", others=[agent_tool("a")])
    async with served(first, second) as agents:
        before = asyncio.get_running_loop().time()
        submitted = await agents.line.submit("a", "chat", Asked(message="go"))
        ended = await agents.line.until_end(submitted.execution)
        refused = said(runtime_of(agents.session("chat:b")), "tool_reply")[0]

        assert ended.response == "a is done"
        assert asyncio.get_running_loop().time() - before < 5
        assert refused.kind == "error"
        assert "depth_exceeded: agent 'a' waits for this very answer (a → b → a)" in refused.content
        assert [one.ancestors for one in executions(agents)] == [(), ("a",)]
        assert await agents.line.check() == []


@pytest.mark.scenario("S64")
@simulated
async def test_deeper_than_the_limit_is_refused_at_once() -> None:
    names = [f"a{number}" for number in range(5)]
    chain = [
        agent(name, asks(after), f"{name} is done", others=[after])
        for name, after in pairwise(names)
    ]
    async with served(*chain, agent("a4"), line=LineLimits(depth=3)) as agents:
        (told,) = await replies(open_session(agents, "a0"))
        deepest = said(runtime_of(agents.session("chat:a3")), "tool_reply")[0]

        assert told.content == "a1 is done"
        assert "depth_exceeded: 4 agents ask each other already, 3 is most" in deepest.content
        assert "a4" not in [one.agent_name for one in executions(agents)]


@simulated
async def test_an_agent_that_names_itself_as_who_asks_is_refused() -> None:
    async with served(agent("a")) as agents:
        asked = Asked(message="go", by=Asker(source="agent", source_agent="a"))
        with pytest.raises(NotAdmitted) as refused:
            await agents.line.submit("a", "chat", asked)

        assert refused.value.code == "depth_exceeded"


@simulated
async def test_a_full_line_is_told_to_the_model_with_when_to_try_again() -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    boss = agent("boss", asks("clerk"), "ok", others=[clerk])
    async with served(boss, line=LineLimits(waiting=0)) as agents:
        await agents.line.submit("clerk", "chat", Asked(message="first"))
        await asyncio.wait_for(patient.begun.wait(), 5)
        (told,) = await replies(open_session(agents, "boss"))

        assert told.content.startswith("Error: agent 'clerk' gave no answer: capacity: ")
        assert "try again in" in told.content
        patient.door.set()


CANCELS: dict[str, Callable[[ServedSession], object]] = {
    "the call": lambda session: runtime_of(session).cancel_tool("c1"),
    "the turn": lambda session: runtime_of(session).cancel(),
}


@pytest.mark.parametrize("what", CANCELS)
@simulated
async def test_a_cancel_of_the_call_ends_its_execution_on_record(what: str) -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    async with served(agent("boss", asks("clerk"), "ok", others=[clerk])) as agents:
        session = open_session(agents, "boss")
        await asyncio.wait_for(patient.begun.wait(), 5)
        CANCELS[what](session)
        (told,) = await replies(session)
        await settled(runtime_of(agents.session("chat:clerk")))
        (execution,) = executions(agents)

        assert told.kind == "cancelled"
        assert (execution.status, execution.error_code) == ("cancelled", "terminated")
        assert execution.error == "terminated (boss)"
        assert await agents.line.check() == []


@simulated
async def test_a_cancel_while_it_waits_in_line_takes_it_out() -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    async with served(agent("boss", asks("clerk"), "ok", others=[clerk])) as agents:
        await agents.line.submit("clerk", "chat", Asked(message="first"))
        await asyncio.wait_for(patient.begun.wait(), 5)
        session = open_session(agents, "boss")
        await until(runtime_of(session), "tool_started")
        for _ in range(20):
            await asyncio.sleep(0)
        runtime_of(session).cancel_tool("c1")
        await replies(session)
        patient.door.set()
        first, second = executions(agents)

        assert (first.status, second.status) == ("running", "cancelled")
        assert second.started_at is None


@simulated
async def test_an_agent_that_fails_is_told_with_its_reason() -> None:
    clerk = Agent("clerk", model=_broken)
    async with served(agent("boss", asks("clerk"), "ok", others=[clerk])) as agents:
        (told,) = await replies(open_session(agents, "boss"))

        assert told.kind == "error"
        assert "failed: " in told.content
        assert "no words" in told.content


@simulated
async def test_the_answer_comes_to_a_busy_parent_once_in_call_order() -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    both = reply(
        calls=[call("ask_clerk", "c1", message="go"), call("ask_helper", "c2", message="go")]
    )
    boss = agent("boss", both, "ok", others=[clerk, agent("helper", "Here.")])
    async with served(boss) as agents:
        session = open_session(agents, "boss")
        await until(runtime_of(session), "tool_reply")
        runtime_of(session).start("And meanwhile?")
        patient.door.set()
        told = await replies(session)

        assert [one.content for one in told] == ["Here.", "at last"]
        roles = [message.role for message in runtime_of(session).history]
        assert roles == ["user", "assistant", "tool", "tool", "user", "assistant"]


# -- in the background ---------------------------------------------------------------------------


def ends(session: ServedSession) -> list[str]:
    """What was told of background executions, as it was accepted."""
    accepted: list[AnyPayload] = said(runtime_of(session), "accepted")
    texts = [getattr(one, "content", "") for one in accepted]
    return [text for text in texts if text.startswith("[agent ")]


@pytest.mark.scenario("S62")
@simulated
async def test_a_background_end_is_told_to_a_busy_parent_at_its_next_safe_point_once() -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    slow = Agent("slow", model=(slowly := Patient()))
    script = [asks("clerk"), asks("slow", id_="c2"), "ok", "ok"]
    boss = agent("boss", *script, others=[agent_tool(clerk, background=True), slow])
    async with served(boss) as agents:
        session = open_session(agents, "boss")
        await asyncio.wait_for(slowly.begun.wait(), 5)
        began = said(runtime_of(session), "tool_reply")[0]
        assert "its answer comes in a message" in began.content
        patient.door.set()
        held = await until(runtime_of(session), "held")
        assert held.blocked_by == ("c2",)
        slowly.door.set()
        await replies(session)

        (told,) = ends(session)
        assert told.startswith("[agent clerk, execution exec_0_")
        assert told.endswith(": completed]\nat last")
        assert len(said(runtime_of(session), "delivered")) == 2
        assert len(said(runtime_of(session), "done")) == 1


@pytest.mark.scenario("S63")
@simulated
async def test_each_end_is_told_a_correction_too() -> None:
    clerk = Agent("clerk", model=(patient := Patient()))
    boss = agent("boss", asks("clerk"), "ok", others=[agent_tool(clerk, background=True)])
    async with served(boss) as agents:
        session = open_session(agents, "boss")
        await asyncio.wait_for(patient.begun.wait(), 5)
        await settled(runtime_of(session))
        (execution,) = executions(agents)
        line = agents.line
        late = Outcome(status="timeout", error="too slow", by_watchdog=True)
        line.book.end(execution.id, late)
        line.book.end(execution.id, Outcome(status="completed", response="after all"))
        patient.door.set()
        await settled(runtime_of(session))

        heads = [text.partition(": ")[2] for text in ends(session)]
        assert heads == [
            "timeout]\ntoo slow",
            "completed, not timeout as was said before]\nafter all",
        ]


@pytest.mark.scenario("S64")
@simulated
async def test_agents_that_answer_each_others_ends_come_to_an_end() -> None:
    clerk = agent("clerk", reply("Done.", delay=5))
    boss = agent("boss", *[asks("clerk"), "ok"] * 20, others=[agent_tool(clerk, background=True)])
    async with served(boss, line=LineLimits(depth=3)) as agents:
        session = open_session(agents, "boss")
        await asyncio.sleep(1000)
        told = await replies(session)

        assert [one.ancestors for one in executions(agents)] == [
            ("boss",),
            ("boss (done)", "clerk (done)", "boss"),
        ]
        assert len(ends(session)) == 2
        assert "depth_exceeded: 5 agents ask each other already, 3 is most" in told[-1].content
