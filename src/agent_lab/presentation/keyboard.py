"""What is typed during a run: a line of our own below the story, and what it comes to.

The terminal's own line would be drawn over by the story, so keys are read one by one (cbreak, no
echo) and the line is drawn with what goes on. Ctrl-C stays the terminal's: it is a signal.
"""

import asyncio
import codecs
import os
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from agent_lab.domain.hand_payloads import Decision, PermissionRequested
from agent_lab.domain.messages import Mode

HELP = """\
TEXT              a steer: the model sees it as soon as it can
/follow TEXT      for the next turn
/interrupt TEXT   stops this turn and begins one with the text
/withdraw [ID]    takes the last message back that still waits
/edit TEXT        changes what that message says
/cancel [CALL]    stops the turn, or one tool call
/help             this
//TEXT            a text that begins with a slash
While a tool asks for permission:
y, a              allow it once, or always in this run
e                 change its arguments, then allow it
n [WHY]           deny it, and tell the model why
x [WHY]           deny it and stop the turn
Ctrl-C cancels the turn, a second one leaves. Ctrl-U clears the line, Ctrl-W its last word."""


class Send(msgspec.Struct, frozen=True):
    """A message to the agent."""

    text: str
    mode: Mode = "steer"


class Withdraw(msgspec.Struct, frozen=True):
    """Take a message back."""

    message_id: str


class Edit(msgspec.Struct, frozen=True):
    """Change a message."""

    message_id: str
    text: str


class Cancel(msgspec.Struct, frozen=True):
    """Stop the turn, or one call."""

    call_id: str | None = None


class Permit(msgspec.Struct, frozen=True):
    """Answer the tool that asks."""

    request_id: str
    decision: Decision
    arguments: dict[str, Any] | None = None
    message: str | None = None


class Begin(msgspec.Struct, frozen=True):
    """Put this into the line, to be changed and sent."""

    text: str


class Tell(msgspec.Struct, frozen=True):
    """Nothing to do; say this."""

    text: str


Order = Send | Withdraw | Edit | Cancel | Permit | Begin | Tell

_DECISIONS: dict[str, Decision] = {
    "y": "allow",
    "a": "allow_always",
    "n": "deny",
    "x": "deny_and_interrupt",
}


def understand(
    line: str, waiting: Mapping[str, str], asks: PermissionRequested | None = None
) -> Order | None:
    """What a typed line asks for; None for a blank one. `waiting` are messages by id, in order.

    `asks` is the permission request that is shown. Only a line that is one of its letters answers
    it: any other text steers, and allows nothing.
    """
    line = line.strip()
    if asks is not None and (answer := _answer(line, asks)) is not None:
        return answer
    if not line.startswith("/") or line.startswith("//"):
        return Send(line.removeprefix("/")) if line else None
    command, _, said = line.partition(" ")
    said = said.strip()
    match command:
        case "/follow" | "/interrupt" if said:
            return Send(said, "follow_up" if command == "/follow" else "interrupt")
        case "/cancel":
            return Cancel(said or None)
        case "/withdraw" if said or waiting:
            return Withdraw(said or list(waiting)[-1])
        case "/edit" if said and waiting:
            return Edit(list(waiting)[-1], said)
        case "/withdraw" | "/edit" if not waiting:
            return Tell("no message waits: it was delivered, or there was none")
        case "/follow" | "/interrupt" | "/edit":
            return Tell(f"{command} needs a text behind it")
        case "/help" | "/?":
            return Tell(HELP)
        case _:
            return Tell(f"there is no {command}; /help says what there is, // sends a slash")


def _answer(line: str, asks: PermissionRequested) -> Permit | Begin | Tell | None:
    """What the line says to the tool that asks; None if it is about something else."""
    letter, _, more = line.partition(" ")
    match letter:
        case "y" | "a" if not more:
            return Permit(asks.request_id, _DECISIONS[letter])
        case "n" | "x":
            return Permit(asks.request_id, _DECISIONS[letter], message=more.strip() or None)
        case "e" if not more:
            return Begin(f"e {msgspec.json.encode(asks.arguments).decode()}")
        case "e" if more.lstrip().startswith("{"):
            try:
                arguments = msgspec.json.decode(more, type=dict[str, Any])
            except msgspec.MsgspecError as error:
                return Tell(f"these arguments are no JSON object: {error}")
            return Permit(asks.request_id, "allow", arguments=arguments)
        case _:
            return None


# An arrow, a function key, a paste's brackets: ESC [ … letter, or ESC O letter.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.)")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)?\Z")


class Line:
    """A line as it is typed; `feed` gives the lines that were finished."""

    def __init__(self) -> None:
        self.text = ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._left = ""

    def feed(self, keys: bytes) -> list[str]:
        """Take what the keyboard gave."""
        typed = _SEQUENCE.sub("", self._left + self._decode(keys))
        unfinished = _UNFINISHED.search(typed)
        self._left = unfinished[0] if unfinished and len(unfinished[0]) > 1 else ""
        done: list[str] = []
        for key in typed.removesuffix(unfinished[0] if unfinished else ""):
            match key:
                case "\r" | "\n":
                    done.append(self.text)
                    self.text = ""
                case "\x7f" | "\b":
                    self.text = self.text[:-1]
                case "\x15":
                    self.text = ""
                case "\x17":
                    self.text = re.sub(r"\S*\s*\Z", "", self.text)
                case _ if key == "\t" or key.isprintable():
                    self.text += key
                case _:
                    pass
        return done


@contextmanager
def keys(take: Callable[[bytes], object]) -> Generator[bool]:
    """Give each key to `take`, on the running loop; whether there is a keyboard to read.

    There is one if standard input is a terminal and we are in its foreground: a program in the
    background that reads is stopped by the system.
    """
    fd = sys.stdin.fileno() if sys.stdin is not None else -1
    if fd < 0 or not _is_ours(fd):
        yield False
        return
    import termios
    import tty

    def read() -> None:
        typed = b""
        with suppress(OSError):  # the terminal is gone
            typed = os.read(fd, 4096)
        if typed:
            take(typed)
        else:
            loop.remove_reader(fd)

    before = termios.tcgetattr(fd)
    loop = asyncio.get_running_loop()
    tty.setcbreak(fd, termios.TCSADRAIN)  # what was typed before is not thrown away
    loop.add_reader(fd, read)
    try:
        yield True
    finally:
        loop.remove_reader(fd)
        with suppress(termios.error):
            termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _is_ours(fd: int) -> bool:
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except (OSError, AttributeError):
        return False
