"""`agent-lab run`: one run, told as rows or as lines of JSON."""

import asyncio
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from rich.console import Group
from rich.live import Live

from agent_lab.application.agent import Agent
from agent_lab.application.journal import Gap
from agent_lab.application.runtime import Runtime
from agent_lab.domain.errors import MessageRejected, SessionError
from agent_lab.domain.messages import ChatMessage
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.foreground import Batch, first_error, run_once
from agent_lab.presentation.keyboard import (
    Cancel,
    Edit,
    Line,
    Order,
    Send,
    Tell,
    Withdraw,
    keys,
    understand,
)
from agent_lab.presentation.terminal import Story, drawn, plain, typing, visible, visible_json


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

    def listening(self, runtime: Runtime) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Nothing to leave."""


class _Rows:
    """Rows as they come; on a terminal, what goes on stands below them, and what is typed."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._story = Story()
        self._line = Line()
        self._hears = False
        self._keyboard = ExitStack()
        self._live = Live(
            console=screen.console,
            get_renderable=self._below,
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

    @contextmanager
    def listening(self, runtime: Runtime) -> Generator[None]:
        if not self._screen.console.is_terminal:
            yield
            return
        with self._keyboard:
            typed = keys(lambda pressed: self._typed(pressed, runtime))
            self._hears = self._keyboard.enter_context(typed)
            yield
        self._hears = False

    def close(self) -> None:
        self._hears = False
        self._keyboard.close()
        self._live.stop()

    def _below(self) -> Group:
        rows = [drawn(row) for row in self._story.going_on()]
        if self._hears:
            rows.append(typing(visible(self._line.text)))
        return Group(*rows)

    def _typed(self, pressed: bytes, runtime: Runtime) -> None:
        for line in self._line.feed(pressed):
            order = understand(line, self._story.waiting)
            said = None if order is None else obey(runtime, order)
            if isinstance(order, Withdraw):  # the story tells it later than the next line comes
                self._story.waiting.pop(order.message_id, None)
            if said:
                self._screen.draw(drawn(self._story.note(said)))
        self._live.refresh()


def obey(runtime: Runtime, order: Order) -> str | None:
    """Do it; what there is to say, when the story does not tell it."""
    match order:
        case Send():
            try:
                runtime.start(ChatMessage("user", order.text, mode=order.mode))
            except MessageRejected:  # that is its receipt, and a row
                return None
            except SessionError as error:
                return str(error)
        case Withdraw():
            if not runtime.withdraw(order.message_id):
                return f"{order.message_id} does not wait any more"
        case Edit():
            if not runtime.edit(order.message_id, order.text):
                return f"{order.message_id} does not wait any more"
        case Cancel():
            if order.call_id is None:
                return None if runtime.cancel() == "cancelled" else "no turn runs"
            if runtime.cancel_tool(order.call_id) != "cancelled":
                return f"tool call {order.call_id} is not open"
        case Tell():
            return order.text
    return None
