"""What must not leave this process, and the one way to take it out of a text.

Two kinds, treated differently:

- **Known secrets**: values this process holds, such as the server's token and a provider's API key.
  Who reads one registers it (`SECRETS.add`). They are removed from everything that leaves: entries
  as read, logs, errors, exceptions; as they are, in base64, percent-encoded, escaped in JSON, and
  in pieces over several chunks of a stream.
- **What looks like a secret** (`redact`): an Authorization header, `sk-…`, the userinfo of a URL,
  the value of a key named like a password, at any depth and in JSON inside strings. Only in logs,
  errors and exceptions: a conversation is kept as it was given.

All of it is linear in the text. With nothing registered, looking for known secrets costs nothing.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

MARK = "[redacted]"
"""What stands where a secret stood."""
SHORTEST = 8
"""Characters of a known secret; a shorter one would black out ordinary words."""


class Secrets:
    """Values that must not leave this process."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        self.forms: tuple[str, ...] = ()
        """How known secrets may stand in a text; another tuple after each change."""
        self._tries: tuple[_Tail, ...] | None = None

    def add(self, *secrets: str | None) -> None:
        """Remove these from now on. None, and what is shorter than SHORTEST, is let be."""
        for secret in secrets:
            said = (secret or "").strip()
            if len(said) >= SHORTEST and said not in self._known:
                self._known[said] = tuple(_forms(said))
        self._changed()

    def forget(self, *secrets: str) -> None:
        """These are no secrets any more."""
        for secret in secrets:
            self._known.pop(secret.strip(), None)
        self._changed()

    def _changed(self) -> None:
        every = {form for forms in self._known.values() for form in forms}
        self.forms = tuple(sorted(every, key=len, reverse=True))
        self._tries = None

    def __bool__(self) -> bool:
        return bool(self.forms)

    def are_in(self, text: str) -> bool:
        """Whether a known secret stands in it."""
        for form in self.forms:  # noqa: SIM110  # asked of every entry: a generator costs more
            if form in text:
                return True
        return False

    def hide(self, text: str) -> str:
        """The text without known secrets."""
        return _without(text, self._spans(text)) if self.are_in(text) else text

    def redact(self, text: str) -> str:
        """The text of a log, an error or an exception: no known secret, nothing like one."""
        return redact(self.hide(text))

    def hide_in(self, value: Any) -> Any:
        """What JSON can say, with known secrets gone from its strings, keys and numbers."""
        match value:
            case str():
                return self.hide(value)
            case dict():
                return {self.hide_in(key): self.hide_in(item) for key, item in value.items()}  # type: ignore[misc]  # of any kind
            case list():
                return [self.hide_in(item) for item in value]  # type: ignore[misc]  # of any kind
            case int() | float() if self.are_in(str(value)):
                return MARK
            case _:
                return value

    def stream(self) -> "Stream | None":
        """For a text that comes in chunks; None when there is nothing to hide."""
        return Stream(self) if self.forms else None

    def tails(self) -> "tuple[_Tail, ...]":
        """A matcher a form, which a stream copies; for Stream alone."""
        if self._tries is None:
            self._tries = tuple(_Tail(form) for form in self.forms)
        return self._tries

    def _spans(self, text: str) -> list[tuple[int, int]]:
        """Where known secrets stand, in order, those that touch or overlap as one."""
        found = sorted(span for form in self.forms for span in _places(form, text))
        spans: list[tuple[int, int]] = []
        for start, end in found:
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        return spans

    def split(self, text: str, keep: int) -> tuple[str, str]:
        """What of a stream can be said now, hidden, and its end to wait with; for Stream alone."""
        at, spans = len(text) - keep, self._spans(text)
        at = next((start for start, end in spans if start < at < end), at)
        return _without(text[:at], [span for span in spans if span[1] <= at]), text[at:]


class Stream:
    """Hides known secrets in a text that comes in chunks.

    What may be the beginning of a secret is held back until it is one or is not, so no chunk
    reveals a piece of it. `end` gives what was held back.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._tails = [tail.anew() for tail in secrets.tails()]
        self._held = ""

    def push(self, chunk: str) -> str:
        """What can be said now; may be empty."""
        keep = max(tail.feed(chunk) for tail in self._tails)
        text = self._held + chunk
        said, self._held = self._secrets.split(text, min(keep, len(text)))
        return said

    def end(self) -> str:
        """What was held back: nothing more comes, so it is no secret, or a whole one."""
        held, self._held = self._held, ""
        return self._secrets.hide(held)


class _Tail:
    """How much of one form the end of a text is, character by character (Knuth, Morris, Pratt)."""

    def __init__(self, form: str, borders: list[int] | None = None) -> None:
        self._form = form
        self._borders = borders or _borders(form)
        self._length = 0

    def anew(self) -> "_Tail":
        return _Tail(self._form, self._borders)

    def feed(self, chunk: str) -> int:
        """Take the next chunk; how many characters of the text's end may begin the form."""
        form, borders, length = self._form, self._borders, self._length
        at, size = 0, len(chunk)
        while at < size:
            if not length:  # on to where it may begin, which is nearly always nowhere
                at = chunk.find(form[0], at)
                if at < 0:
                    break
            letter = chunk[at]
            while length and form[length] != letter:
                length = borders[length - 1]
            if form[length] == letter:
                length += 1
                if length == len(form):
                    length = borders[length - 1]
            at += 1
        self._length = length
        return length


def _borders(form: str) -> list[int]:
    """For each beginning of the form, the longest proper beginning that is also its end."""
    borders = [0] * len(form)
    length = 0
    for index in range(1, len(form)):
        while length and form[index] != form[length]:
            length = borders[length - 1]
        length += form[index] == form[length]
        borders[index] = length
    return borders


def _forms(secret: str) -> Iterator[str]:
    """The secret as it may stand in a text."""
    yield secret
    yield quote(secret, safe="")
    yield re.sub(r"%..", lambda code: code[0].lower(), quote(secret, safe=""))
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    data = secret.encode("utf-8", "replace")
    for shift in range(3):  # base64 goes by threes, and what stands before it is not known
        coded = base64.b64encode(b"\0" * shift + data).decode()
        whole = coded[(0, 2, 3)[shift] : (len(data) + shift) // 3 * 4]
        yield whole
        yield whole.translate({43: "-", 47: "_"})


def _places(form: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + len(form))


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], MARK)
        done = end
    return "".join((*parts, text[done:]))


SECRETS: Final = Secrets()
"""The secrets of this process. There is one, because whoever forgot to pass it on would leak."""


# -- what looks like a secret --------------------------------------------------------------------

_NAMED = (
    r"api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|signing[_-]?key|account[_-]?key"
    r"|secret|password|passwd|passphrase|credentials?|token|cookie|authorization"
)
"""How the name of a value ends that is a secret. Not `tokens`, `token_count`, `author`, `key`."""
_IS_NAMED = re.compile(rf"(?:{_NAMED})\Z", re.IGNORECASE)

_SCHEMED = re.compile(
    r"\b(bearer|basic)\s+(?:[\w.~+/=-]{20,}|(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,})", re.IGNORECASE
)
_PREFIXED = re.compile(
    r"""(?<![\w-])(?: (?:sk|pk|rk)[-_] (?: [\w-]{20,} | (?=[\w-]*\d)[\w-]{8,} )
        | gh[pousr]_\w{20,} | github_pat_\w{20,} | xox[abeprs]-[\w-]{10,} | hf_\w{20,}
        | AIza[\w-]{30,} | AKIA[0-9A-Z]{16} | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]* )""",
    re.VERBOSE,
)
_USERINFO = re.compile(r"(?<=://)(?:[^\s/:@?#\"']*:[^\s/\"']*|[^\s/:@?#\"']{20,})@")
_VALUE = re.compile(
    rf"""(?=[acpstACPST])(?P<name>{_NAMED})
        (?P<sign>\\*["']?\s*(?:=>|[:=]|(?<=ion["']|key["']|kie["']),(?=\s*b?["']))\s*)
        (?: b?(?P<quote>\\*["']) (?:(?!(?<!\\)(?P=quote)).)*+ (?P=quote)?
          | (?: (?:bearer|basic|digest)\s+ )? [^\s,;&(){{}}\[\]"'\\]+ )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_NO_SECRET = re.compile(r"(?:null|none|true|false|\[redacted\])\Z", re.IGNORECASE)


def redact(text: str) -> str:
    """The text without what looks like a secret, for logs, errors and exceptions.

    Decided, and pinned by a test: the name of a value must end like a secret's. So these stay:
    `token_count=12`, `max_tokens=64`, `author=Ann`, `key=call_1`, `PWD=/home`.
    """
    text = _VALUE.sub(_valued, text)
    text = _SCHEMED.sub(rf"\1 {MARK}", text)
    text = _PREFIXED.sub(MARK, text)
    return _USERINFO.sub(f"{MARK}@", text)


def _valued(found: re.Match[str]) -> str:
    name, sign, mark = found["name"], found["sign"], found["quote"] or ""
    value = found[0][len(name) + len(sign) :]
    if _NO_SECRET.match(value):
        return found[0]
    return f"{name}{sign}{mark}{MARK}{mark}"


def secrets_in(environment: Mapping[str, str]) -> list[str]:
    """The values of environment variables that are named like secrets."""
    return [value for name, value in environment.items() if _IS_NAMED.search(name)]
