"""The plugin in real pytest runs: open and close, both asyncio plugins, the report, no weight.

A pytest run costs a second or more, so what passes under one mode is one run.
"""

import pytest

pytest_plugins = ("pytester",)

AGENT = """
    import asyncio
    import pytest
    from agent_lab import Agent, ChatMessage, tool
    from agent_lab.testing import ScriptedModel, call, reply

    @tool
    async def get_weather(city: str) -> str:
        return f"4 degrees in {city}"

    def weather():
        said = [reply(calls=[call("get_weather", city="Oslo")]), reply("4 degrees.")]
        return Agent("weather", model=ScriptedModel(said), tools=[get_weather])

    async def types(run):
        return [payload.type async for payload in run]
"""
ASKS = """
    async def test_an_agent_answers(agent_lab_runtime):
        runtime = agent_lab_runtime(weather())
        assert (await types(runtime.run("Weather in Oslo?")))[-1] == "done"
"""
LEAVES_WORK_BEHIND = """
    seen = []

    async def test_work_is_left_behind(agent_lab_runtime, scripted_model):
        @tool
        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(asyncio.get_running_loop())

        model = scripted_model([reply(calls=[call("hang")])])
        runtime = agent_lab_runtime(model=model, tools=[hang])
        runtime.start("Go.")
        async for batch in runtime.follow():
            if any(entry.payload.type == "tool_started" for entry in batch):
                break
        seen.extend([asyncio.get_running_loop(), runtime])

    def test_it_was_closed_in_its_own_loop():
        of_the_tool, of_the_test, runtime = sorted(seen, key=lambda one: hasattr(one, "session"))
        assert of_the_tool is of_the_test
        assert runtime.is_closed
        assert not runtime.session.abandoned.tasks
"""
MORE = """
    async def test_a_runtime_stays_open_after_a_run(agent_lab_runtime):
        runtime = agent_lab_runtime(model=ScriptedModel(["One.", "Two."]))
        await types(runtime.run("First?"))
        queues = runtime.session.queues
        await queues.input.put(ChatMessage("user", "Second?"))
        while (await asyncio.wait_for(queues.output.get(), 5)).type != "done":
            pass
        assert runtime.history[-1].content == "Two."

    async def test_a_script_may_repeat_its_last_reply(agent_lab_runtime, scripted_model):
        runtime = agent_lab_runtime(model=scripted_model(["Yes."], repeat_last=True))
        for _ in range(2):
            assert (await types(runtime.run("Sure?")))[-1] == "done"
        assert [said.content for said in runtime.history] == ["Sure?", "Yes."] * 2

    @pytest.fixture
    def runtime(agent_lab_runtime):
        return agent_lab_runtime(weather())

    class TestWeather:
        async def test_two_runtimes_beside_each_other(self, runtime, agent_lab_runtime):
            other = agent_lab_runtime(weather(), session_id="s_mine")
            assert other.session_id == "s_mine"
            for one in (runtime, other):
                assert (await types(one.run("Weather?")))[-1] == "done"

    async def test_neither_agent_nor_model_is_refused(agent_lab_runtime):
        with pytest.raises(TypeError, match="give one"):
            agent_lab_runtime()

    from hypothesis import HealthCheck, given, settings, strategies

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=5,
              database=None, deadline=None)
    @given(text=strategies.sampled_from("abc"))
    async def test_each_example_has_its_own(agent_lab_runtime, text):
        assert all(one.is_closed for one in agent_lab_runtime.opened)
        runtime = agent_lab_runtime(model=ScriptedModel([text]))
        assert (await types(runtime.run(text)))[-1] == "done"
"""


@pytest.fixture
def pytests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """pytest in a process and a folder of its own, with warnings as errors."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:cacheprovider -W error")
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    return pytester


def run(
    pytests: pytest.Pytester, tests: str, *options: str, mode: str = "auto"
) -> pytest.RunResult:
    pytests.makepyfile(AGENT + tests)
    return pytests.runpytest_subprocess(f"--asyncio-mode={mode}", *options, timeout=50)


def test_fixtures_work_under_asyncio_auto_mode(pytests: pytest.Pytester) -> None:
    result = run(pytests, ASKS + LEAVES_WORK_BEHIND + MORE, "-rA")

    result.assert_outcomes(passed=8)
    result.stdout.no_fnmatch_line("*agent_lab: the last*")


@pytest.mark.parametrize(
    "mark",
    [
        "@pytest.mark.asyncio",
        "@pytest.mark.parametrize('anyio_backend', ['asyncio'])\n    @pytest.mark.anyio",
    ],
    ids=["asyncio", "anyio"],
)
def test_fixtures_work_under_strict_mode_with(pytests: pytest.Pytester, mark: str) -> None:
    tests = (ASKS + LEAVES_WORK_BEHIND).replace("async def test_", f"{mark}\n    async def test_")

    result = run(pytests, tests, mode="strict")

    result.assert_outcomes(passed=3)


def test_a_failing_test_shows_the_tail_of_each_journal(pytests: pytest.Pytester) -> None:
    result = run(
        pytests,
        """
    async def test_fails(agent_lab_runtime):
        runtime = agent_lab_runtime(weather(), session_id="s_one")
        await types(runtime.run("Weather in Oslo?"))
        talks = ScriptedModel(["All right."] * 20)
        talker = agent_lab_runtime(model=talks, session_id="s_two")
        for number in range(20):
            await types(talker.run(f"Question {number}?"))
        agent_lab_runtime(model=talks, session_id="s_three")
        assert not "as it should"

    def test_fails_before_anything_starts(agent_lab_runtime):
        agent_lab_runtime(weather(), session_id="s_four")
        assert not "as it should"
    """,
    )

    result.assert_outcomes(failed=2)
    result.stdout.re_match_lines_random(
        [
            r"-+ agent_lab: the last 18 of 18 entries of s_one \(weather\) -+",
            r"    1    0\.000        accepted       message_id=\w+ content=\"Weather in Oslo\?\".*",
            r"    5    \d\.\d{3} 1\.1    model_request  model=scripted messages=1",
            r"    7    \d\.\d{3} 1\.1    assistant      tool_calls=\[\"call_1_0\"\]",
            r"   14    \d\.\d{3} 1\.1    tool_reply     .*content=\"4 degrees in Oslo\".*",
            r"   18    \d\.\d{3} 1\.2    done           reason=stop pending=0",
        ]
    )
    told = result.stdout.str()
    _, _, last_forty = told.partition("agent_lab: the last 40 of ")
    assert "Question 19?" in last_forty and "Question 0?" not in last_forty
    assert "entries of s_three" not in told and "entries of s_four" not in told


def test_nothing_is_imported_before_a_fixture_is_used(pytests: pytest.Pytester) -> None:
    pytests.makeconftest("""
        import sys

        def pytest_unconfigure():
            print("LOADED", *sorted(sys.modules))
    """)
    pytests.makepyfile("def test_empty(): pass")

    result = pytests.runpytest_subprocess("--collect-only", "-q", timeout=50)

    (loaded,) = (line.split() for line in result.outlines if line.startswith("LOADED"))
    assert "agent_lab.presentation.pytest_plugin" in loaded
    heavy = ("pydantic", "starlette", "rich", "typer", "msgspec", "uvicorn")
    rooms = ("agent_lab.application", "agent_lab.domain", "agent_lab.infrastructure")
    assert [name for name in loaded if name.startswith((*heavy, *rooms))] == []
