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

import msgspec

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


class Tell(msgspec.Struct, frozen=True):
    """Nothing to do; say this."""

    text: str


Order = Send | Withdraw | Edit | Cancel | Tell


def understand(line: str, waiting: Mapping[str, str]) -> Order | None:
    """What a typed line asks for; None for a blank one. `waiting` are messages by id, in order."""
    line = line.strip()
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
