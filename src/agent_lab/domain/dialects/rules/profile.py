"""What a verdict depends on besides the provider: model, thinking, store, tokenizer, template."""

import json
import re
from typing import Any

import msgspec

from agent_lab.domain.dialects.violations import UnknownProfileKey


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The keys a caller may give; None where he did not.

    `era` is the year whose rules count (some of 2024 are gone). `produced` lists which item ids
    one response gave, `[["rs_1", "fc_1"], ...]`, and `original_content` the blocks a message had
    when the provider sent it, `[[1, [block, ...]], ...]`: only the server knows them otherwise.
    `parallel_original` says that the calls came in one answer, whatever the list shows.
    """

    model: str = ""
    thinking: bool | None = None
    store: bool | None = None
    tokenizer: str = ""
    mistral_common: str = ""
    template: str = ""
    era: str = ""
    produced: list[list[str]] = []
    original_content: list[tuple[int, list[dict[str, Any]]]] = []
    parallel_original: bool | None = None


KEYS = Profile.__struct_fields__


def read_profile(given: dict[str, Any]) -> Profile:
    """The profile from keyword arguments; text such as "true" is read as from a command line."""
    for key in given:
        if key not in KEYS:
            raise UnknownProfileKey(key, KEYS)
    said = {key: _read(key, value) for key, value in given.items() if value is not None}
    try:
        return msgspec.convert(said, Profile, strict=False)
    except (msgspec.ValidationError, RecursionError) as error:
        wrong = next((key for key in said if f"$.{key}" in str(error)), next(iter(said)))
        raise UnknownProfileKey(wrong, KEYS, given[wrong]) from error


def _read(key: str, value: Any) -> Any:
    """`--profile produced=[[...]]` comes as JSON text; a version may come as a number."""
    if key in ("produced", "original_content") and isinstance(value, str):
        try:
            return json.loads(value)
        except (ValueError, RecursionError) as error:
            raise UnknownProfileKey(key, KEYS, value) from error
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def version(text: str, default: int) -> int:
    """The number of a tokenizer such as `v11`."""
    found = re.search(r"\d+", text)
    return int(found.group()[:6]) if found else default


def release(text: str) -> tuple[int, ...]:
    """The numbers of a release such as `<=1.11.0`; empty when there are none."""
    return tuple(int(part[:6]) for part in re.findall(r"\d+", text))


def claude_version(model: str) -> tuple[int, int]:
    """(4, 6) of `claude-sonnet-4-6`, (4, 0) of `claude-opus-4-20250514`; (0, 0) of other names."""
    found = re.search(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2})(?!\d))?", model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def of_family(name: str, *families: str) -> bool:
    """Whether a model or template is one of these, by the start of its last path segment."""
    last = name.rpartition("/")[2].lower()
    return last.startswith(families)
