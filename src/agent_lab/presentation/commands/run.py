"""`agent-lab run`: one run, told as rows or as lines of JSON."""

import asyncio
import re
from collections.abc import Callable, Sequence

from rich.console import Group
from rich.live import Live

from agent_lab.application.agent import Agent
from agent_lab.application.journal import Gap
from agent_lab.application.runtime import Runtime
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.foreground import Batch, first_error, run_once
from agent_lab.presentation.terminal import Story, drawn, plain, visible_json


def run(
    screen: Screen,
    open_runtime: Callable[[Agent], Runtime],
    words: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Run once and tell it; the exit status."""
    agent, prompt = _agent_and_prompt(words)
    runtime = open_runtime(agent)
    telling = _Lines(runtime, screen) if as_json else _Rows(screen)
    try:
        return asyncio.run(run_once(runtime, prompt, telling, screen.complain))
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    finally:
        telling.close()


def _agent_and_prompt(words: Sequence[str]) -> tuple[Agent, str]:
    match words:
        case []:
            agent, prompt = demo_agent(), "Weather in Oslo?"
        case [where] if re.search(r"\.py(:\w*)?$", where):
            raise Unusable(f"nothing to ask; say agent-lab run {where} 'PROMPT'")
        case [prompt]:
            agent = demo_agent()
        case [where, prompt]:
            agent = load_agent(where)
        case _:
            raise Unusable(f"{len(words)} words are too many; put the prompt in quotes")
    if not prompt.strip():
        raise Unusable("nothing to ask, the prompt is blank; say something")
    if any("\ud800" <= letter <= "\udfff" for letter in prompt):
        raise Unusable("the prompt is not UTF-8; say it in UTF-8")
    return agent, prompt


class _Lines:
    """Each entry as one line of JSON."""

    def __init__(self, runtime: Runtime, screen: Screen) -> None:
        self._runtime = runtime
        self._screen = screen
        self._encoder: Encoder | None = None

    def tell(self, batch: Batch) -> None:
        if isinstance(batch, Gap):
            missing = f"entries {batch.first} to {batch.last} are no longer kept"
            return self._screen.complain(missing)
        if self._encoder is None:
            offset = self._runtime.session.outside.wall_time() - self._runtime.session.loop.time()
            self._encoder = Encoder(self._runtime.session_id, offset)
        lines = [visible_json(self._encoder.encode(entry)) for entry in batch]
        return self._screen.line("\n".join(lines))

    def close(self) -> None:
        pass


class _Rows:
    """Rows as they come; on a terminal, what goes on stands below them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._story = Story()
        self._live = Live(
            console=screen.console,
            get_renderable=lambda: Group(*map(drawn, self._story.going_on())),
            refresh_per_second=10,
            transient=True,
        )
        if screen.console.is_terminal:
            self._live.start()

    def tell(self, batch: Batch) -> None:
        for row in self._story.tell(batch):
            if self._screen.console.is_terminal:
                self._screen.draw(drawn(row))
            else:
                self._screen.line(plain(row))

    def close(self) -> None:
        self._live.stop()
