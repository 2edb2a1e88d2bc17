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
from agent_lab.domain.errors import AnswerRefused, MessageRejected, SessionError
from agent_lab.domain.hand_payloads import PermissionRequested
from agent_lab.domain.messages import ChatMessage
from agent_lab.presentation.agent_file import load_agent
from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.demo import demo_agent
from agent_lab.presentation.encoder import Encoder
from agent_lab.presentation.escapes import visible, visible_json
from agent_lab.presentation.foreground import Batch, first_error, run_once
from agent_lab.presentation.keyboard import (
    Begin,
    Cancel,
    Edit,
    Line,
    Order,
    Permit,
    Send,
    Tell,
    Withdraw,
    keys,
    understand,
)
from agent_lab.presentation.terminal import Story, drawn, plain, typing

_DEAD = 0.4
"""Seconds for which a question cannot be answered, as on the page."""


def run(
    screen: Screen,
    open_runtime: Callable[[Agent], Runtime],
    words: Sequence[str],
    *,
    as_json: bool,
    allows: bool = False,
) -> int:
    """Run once and tell it; the exit status. `allows`: whatever asks for permission gets it."""
    agent, prompt = _agent_and_prompt(words)
    runtime = open_runtime(agent)
    doorman = _Doorman(runtime, screen, allows=allows)
    telling = _Lines(runtime, screen, doorman) if as_json else _Rows(screen, doorman)
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


class _Doorman:
    """Answers tools that ask for permission where nobody can be asked, or everything is allowed."""

    def __init__(self, runtime: Runtime, screen: Screen, *, allows: bool) -> None:
        self._runtime = runtime
        self._screen = screen
        self.allows = allows

    def answer(self) -> None:
        """Answer whatever waits."""
        for asks in self._runtime.permissions.pending:
            if self.allows:
                self._runtime.permissions.answer(asks.request_id, "allow")
                continue
            said = "this run has nobody who could be asked for permission"
            self._runtime.permissions.answer(asks.request_id, "deny", message=said)
            self._screen.complain(
                f"{asks.name} asks for permission, and nobody can be asked here: denied; "
                "run it in a terminal to be asked, or with --yes to allow everything"
            )


class _Lines:
    """Each entry as one line of JSON."""

    def __init__(self, runtime: Runtime, screen: Screen, doorman: _Doorman) -> None:
        self._runtime = runtime
        self._screen = screen
        self._doorman = doorman
        self._encoder: Encoder | None = None

    def tell(self, batch: Batch) -> None:
        if isinstance(batch, Gap):
            missing = f"entries {batch.first} to {batch.last} are no longer kept"
            return self._screen.complain(missing)
        if self._encoder is None:
            offset = self._runtime.session.outside.wall_time() - self._runtime.session.loop.time()
            self._encoder = Encoder(self._runtime.session_id, offset)
        lines = [visible_json(self._encoder.encode(entry)) for entry in batch]
        self._screen.line("\n".join(lines))
        return self._doorman.answer()

    def listening(self, runtime: Runtime) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Nothing to leave."""


class _Rows:
    """Rows as they come; on a terminal, what goes on stands below them, and what is typed."""

    def __init__(self, screen: Screen, doorman: _Doorman) -> None:
        self._screen = screen
        self._doorman = doorman
        self._story = Story()
        self._asks: PermissionRequested | None = None
        self._asks_since = 0.0
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
        if self._doorman.allows or not self._hears:
            self._doorman.answer()
        asks = next(iter(self._story.asks.values()), None)
        if asks is not self._asks:
            self._asks, self._asks_since = asks, asyncio.get_running_loop().time()

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
            rows.append(typing(visible(self._line.text), self._asks))
        return Group(*rows)

    def _typed(self, pressed: bytes, runtime: Runtime) -> None:
        pieces = re.split(rb"(?<=[\r\n])", pressed)  # a line may put something into the next one
        for line in (line for piece in pieces for line in self._line.feed(piece)):
            order = understand(line, self._story.waiting, self._asks)
            if isinstance(order, Begin):
                self._line.text = order.text
                continue
            said = self._too_soon(order) or (None if order is None else obey(runtime, order))
            if isinstance(order, Withdraw):  # the story tells it later than the next line comes
                self._story.waiting.pop(order.message_id, None)
            if said:
                self._screen.draw(drawn(self._story.note(said)))
        self._live.refresh()

    def _too_soon(self, order: Order | None) -> str | None:
        """What was on its way before the question could be read answers nothing."""
        since = asyncio.get_running_loop().time() - self._asks_since
        if isinstance(order, Permit) and since < _DEAD:
            return "it has only just asked; answer again"
        return None


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
        case Permit():
            try:
                runtime.permissions.answer(
                    order.request_id,
                    order.decision,
                    arguments=order.arguments,
                    message=order.message,
                )
            except AnswerRefused as refused:
                return f"{refused}; {refused.hint}"
        case Tell():
            return order.text
        case Begin():  # the line's own
            return None
    return None
