"""Reading JSON that anybody may have written: whatever stands there, a reader gives its type."""

from typing import Any, cast

from agent_lab.domain.dialects.violations import HistoryUnreadable

Wire = dict[str, Any]

# Deeper than any real message; far below what Python's own recursion can take.
DEEPEST = 200


def objects(value: Any) -> list[Wire]:
    """The objects of a JSON array; what is not an array has none."""
    if not isinstance(value, list):
        return []
    return [cast("Wire", item) for item in cast("list[Any]", value) if isinstance(item, dict)]


def as_object(value: Any) -> Wire:
    """A JSON object, or an empty one."""
    return cast("Wire", value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A JSON array, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """A string, or the empty one."""
    return value if isinstance(value, str) else ""


def either(part: Wire, *names: str) -> Any:
    """The first of these fields that is there: Gemini takes camelCase and snake_case."""
    return next((part[name] for name in names if part.get(name) is not None), None)


def kind_of(value: Any) -> str:
    """A value's JSON type, as OpenAI's errors say it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"


def read_objects(value: Any, what: str) -> list[Wire]:
    """A list of JSON objects, as given; anything else is `HistoryUnreadable`."""
    if not isinstance(value, list | tuple):
        raise HistoryUnreadable(f"it is {type(value).__name__}, not a list", what)
    items = list(cast("list[Any]", value))
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise HistoryUnreadable(
                f"item {index} is {type(item).__name__}, not an object", f"{what}[{index}]"
            )
    _refuse_deep(items, what)
    return items


def _refuse_deep(items: list[Wire], what: str) -> None:
    """Level by level, so that a history 5,000 deep meets no recursion."""
    tables, arrays = items, list[list[Any]]()
    for _ in range(DEEPEST):
        inside = [part for table in tables for part in table.values()]
        inside += [part for array in arrays for part in array]
        tables = [cast("Wire", part) for part in inside if isinstance(part, dict)]
        arrays = [cast("list[Any]", part) for part in inside if isinstance(part, list)]
        if not tables and not arrays:
            return
    raise HistoryUnreadable(f"it is nested more than {DEEPEST} deep", what)
