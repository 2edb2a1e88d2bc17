"""Permission requests over real sockets: shown to whoever comes, answered by one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_lab import Agent, tool
from agent_lab.infrastructure.sqlite import SqliteStore
from agent_lab.testing import ScriptedModel, call, reply
from tests.presentation.helpers_server import Client, Frame, Serving


class Till:
    """An agent whose tool asks before it takes money, and what it took."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=True)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return f"paid {amount}"

        script = [reply(calls=[call("pay", "c1", amount=5)]), "So."]
        self.agent = Agent("till", model=ScriptedModel(script * 3), tools=[pay])


async def asked(client: Client) -> Frame:
    return await client.until("permission_requested")


async def answer(client: Client, request: Frame, decision: str, **fields: object) -> None:
    await client.send(
        {"type": "permission", "request_id": request["request_id"], "decision": decision, **fields}
    )


@pytest.mark.fault("C23")
async def test_of_two_tabs_that_answer_at_once_one_wins_and_both_see_what() -> None:
    till = Till()
    async with Serving(till.agent) as serving:
        one = await serving.run("Pay")
        request = await asked(one)
        two = await serving.attach(one.session_id)
        assert await asked(two) == request
        decisions = {"allow": one, "deny": two}
        await asyncio.gather(*(answer(tab, request, said) for said, tab in decisions.items()))
        ends = [await tab.until("permission_resolved") for tab in (one, two)]
        await asyncio.gather(one.end(), two.end())
        loser = decisions["deny" if ends[0]["decision"] == "allow" else "allow"]
        await answer(loser, request, "allow")  # whatever came before it has been told by now
        refused = [frame for frame in loser.frames if frame["type"] == "error"]
        refused = refused or [await loser.until("error")]

        assert ends[0] == ends[1]
        assert refused[0]["code"] == "prompt_closed"
        assert ends[0]["decision"] in refused[0]["message"]
        assert till.paid == ([5] if ends[0]["decision"] == "allow" else [])


@pytest.mark.fault("SEC-34")
async def test_an_answer_that_does_not_count_is_refused_with_its_reason() -> None:
    till = Till()
    async with Serving(till.agent) as serving:
        client, other = await serving.run("Pay"), await serving.run("Pay too")
        request, foreign = await asked(client), await asked(other)
        codes: list[str] = []
        for asks, fields in (
            (foreign, {}),
            ({"request_id": "ask_9"}, {}),
            (request, {"sha256": "0" * 64}),
            (request, {"arguments": {"amount": "much"}}),
            (request, {"arguments": [5]}),
        ):
            await answer(client, asks, "allow", **fields)
            codes.append((await client.until("error"))["code"])
        await answer(client, request, "yes")
        codes.append((await client.until("error"))["code"])

        assert codes == [
            "prompt_elsewhere",
            "prompt_unknown",
            "arguments_changed",
            "bad_arguments",
            "bad_message",
            "bad_message",
        ]
        assert till.paid == []
        assert client.said("permission_resolved") == []
        await answer(client, request, "allow", sha256=request["sha256"], arguments={"amount": 3})
        await client.end()
        await answer(other, foreign, "deny", message="no")
        await other.end()
        assert till.paid == [3]
        assert other.said("tool_reply")[0]["content"] == "Error: denied by the user, who says: no"


@pytest.mark.fault("C33")
@pytest.mark.fault("SEC-34")
async def test_when_everybody_has_gone_it_waits_and_is_shown_to_whoever_comes() -> None:
    till = Till()
    async with Serving(till.agent) as serving:
        first = await serving.run("Pay")
        request = await asked(first)
        first.cut()
        await asyncio.sleep(0)
        late = await serving.attach(first.session_id)
        assert (await late.until("session"))["state"] == "running"
        assert await asked(late) == request
        assert till.paid == []
        await answer(late, request, "allow")
        await late.end()

        assert till.paid == [5]
        assert len(late.said("permission_requested")) == 1


@pytest.mark.fault("C33")
async def test_after_a_restart_it_is_denied_on_record_and_nothing_ran(tmp_path: Path) -> None:
    till = Till()
    path = tmp_path / "store/lab.db"
    async with Serving(till.agent, store=SqliteStore(path)) as serving:
        client = await serving.run("Pay")
        request = await asked(client)

    async with Serving(till.agent, store=SqliteStore(path)) as serving:
        again = await serving.attach(client.session_id)
        resolved = await again.until("permission_resolved")
        lost = await again.until("tool_reply")
        assert (await again.end())["code"] == "interrupted"

        assert resolved["request_id"] == request["request_id"]
        assert (resolved["decision"], resolved["reason"]) == ("deny", "lost")
        assert lost["kind"] == "lost"
        await answer(again, request, "allow")
        assert (await again.until("error"))["code"] == "prompt_closed"
        assert till.paid == []
