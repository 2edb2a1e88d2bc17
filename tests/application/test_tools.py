"""Tools from plain functions: the schema the model is told, and the arguments the function gets."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from agent_lab import Agent, tool
from agent_lab.application.tools import Tool, as_tool
from agent_lab.domain.errors import ToolDefinitionError
from agent_lab.domain.messages import ToolSchema
from agent_lab.testing import ScriptedModel


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


@dataclass
class Place:
    city: str
    zip: int | None = None


class Window(TypedDict):
    first: int
    last: int


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


class Order(BaseModel):
    item: str
    count: int = Field(ge=1, default=1)


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    return tool(function).schema.parameters


def an_object(properties: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **more,
    }


# -- schemas -------------------------------------------------------------------------------------


def test_a_tool_is_named_and_described_by_its_function() -> None:
    @tool
    async def get_weather(city: str) -> str:
        """The weather in a city.

        Ask for one city at a time.
        """
        return city

    assert get_weather.schema == ToolSchema(
        "get_weather",
        "The weather in a city.\n\nAsk for one city at a time.",
        an_object({"city": {"type": "string"}}, ["city"]),
    )
    assert get_weather.name == "get_weather"


def plain(a: str, b: int, c: float, d: bool, e: None) -> None: ...
def nothing() -> None: ...
def defaults(a: str, b: int = 3, c: str | None = None, *, d: bool = False) -> None: ...
def many(a: list[str], b: dict[str, int], c: tuple[int, str], d: set[int]) -> None: ...
def choice(a: Literal["x", "y"], b: Unit, c: int | str) -> None: ...
def bounded(a: Annotated[int, msgspec.Meta(ge=1, le=9, description="How many.")]) -> None: ...
def unhinted(a, b=1) -> None: ...  # type: ignore[no-untyped-def]  # on purpose


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (nothing, an_object({}, [])),
        (
            plain,
            an_object(
                {
                    "a": {"type": "string"},
                    "b": {"type": "integer"},
                    "c": {"type": "number"},
                    "d": {"type": "boolean"},
                    "e": {"type": "null"},
                },
                ["a", "b", "c", "d", "e"],
            ),
        ),
        (
            defaults,
            an_object(
                {
                    "a": {"type": "string"},
                    "b": {"type": "integer", "default": 3},
                    "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                    "d": {"type": "boolean", "default": False},
                },
                ["a"],
            ),
        ),
        (
            many,
            an_object(
                {
                    "a": {"type": "array", "items": {"type": "string"}},
                    "b": {"type": "object", "additionalProperties": {"type": "integer"}},
                    "c": {
                        "type": "array",
                        "prefixItems": [{"type": "integer"}, {"type": "string"}],
                        "minItems": 2,
                        "maxItems": 2,
                        "items": False,
                    },
                    "d": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
                },
                ["a", "b", "c", "d"],
            ),
        ),
        (
            choice,
            an_object(
                {
                    "a": {"enum": ["x", "y"]},
                    "b": {"$ref": "#/$defs/Unit"},
                    "c": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                },
                ["a", "b", "c"],
                **{"$defs": {"Unit": {"title": "Unit", "enum": ["celsius", "fahrenheit"]}}},
            ),
        ),
        (
            bounded,
            an_object(
                {"a": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many."}},
                ["a"],
            ),
        ),
        (unhinted, an_object({"a": {}, "b": {"default": 1}}, ["a"])),
    ],
)
def test_the_schema_of_a_signature(function: Callable[..., Any], expected: dict[str, Any]) -> None:
    assert schema(function) == expected


def test_structures_are_described_once_and_referred_to() -> None:
    def move(from_: Place, to: Place, window: Window, at: Point) -> None: ...

    assert schema(move) == an_object(
        {
            "from_": {"$ref": "#/$defs/Place"},
            "to": {"$ref": "#/$defs/Place"},
            "window": {"$ref": "#/$defs/Window"},
            "at": {"$ref": "#/$defs/Point"},
        },
        ["from_", "to", "window", "at"],
        **{
            "$defs": {
                "Place": {
                    "title": "Place",
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "zip": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                    },
                    "required": ["city"],
                },
                "Window": {
                    "title": "Window",
                    "type": "object",
                    "properties": {"first": {"type": "integer"}, "last": {"type": "integer"}},
                    "required": ["first", "last"],
                },
                "Point": {
                    "title": "Point",
                    "type": "object",
                    "properties": {
                        "x": {"type": "number"},
                        "y": {"type": "number", "default": 0.0},
                    },
                    "required": ["x"],
                },
            }
        },
    )


def test_a_pydantic_model_is_described_by_its_own_schema() -> None:
    def buy(order: Order, note: str = "") -> None: ...

    assert schema(buy) == an_object(
        {"order": Order.model_json_schema(), "note": {"type": "string", "default": ""}}, ["order"]
    )


def test_references_inside_a_pydantic_model_still_resolve() -> None:
    class Line(BaseModel):
        item: str

    class Cart(BaseModel):
        lines: list[Line]

    def buy(cart: Cart) -> None: ...

    buy.__annotations__["cart"] = Cart
    assert unresolved(schema(buy)) == []


def unresolved(parameters: dict[str, Any]) -> list[str]:
    """References that lead nowhere from the root, which is where a provider resolves them."""
    found: list[str] = []

    def walk(node: Any) -> None:
        match node:
            case {"$ref": str(ref)}:
                target: Any = parameters
                for step in ref.removeprefix("#/").split("/"):
                    target = target.get(step, {}) if isinstance(target, dict) else {}
                if not target:
                    found.append(ref)
            case dict():
                for value in node.values():
                    walk(value)
            case list():
                for value in node:
                    walk(value)
            case _:
                pass

    walk(parameters)
    return found


# -- arguments -----------------------------------------------------------------------------------


def test_arguments_arrive_as_the_hints_want_them() -> None:
    def move(to: Place, at: Point, unit: Unit, order: Order, when: Window, n: int = 2) -> None: ...

    bound = tool(move).bind(
        {
            "to": {"city": "Oslo"},
            "at": {"x": 1},
            "unit": "celsius",
            "order": {"item": "tea", "count": 2},
            "when": {"first": 1, "last": 2},
        }
    )

    assert bound == {
        "to": Place("Oslo"),
        "at": Point(1.0),
        "unit": Unit.C,
        "order": Order(item="tea", count=2),
        "when": {"first": 1, "last": 2},
        "n": 2,
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "city"),
        ({"city": 3}, "city"),
        ({"city": "Oslo", "days": "x"}, "days"),
        ({"city": "Oslo", "town": "x"}, "town"),
        ({"city": None}, "city"),
    ],
)
def test_an_argument_at_fault_is_named(arguments: dict[str, Any], named: str) -> None:
    def look(city: str, days: int = 1) -> None: ...

    with pytest.raises(ValueError, match=named):
        tool(look).bind(arguments)


def test_a_pydantic_model_refuses_in_its_own_words() -> None:
    def buy(order: Order) -> None: ...

    with pytest.raises(ValueError, match="greater than or equal to 1"):
        tool(buy).bind({"order": {"item": "tea", "count": 0}})


def test_a_mutable_default_is_the_functions_own() -> None:
    def collect(item: str, into: list[str] = []) -> list[str]:  # noqa: B006 - on purpose
        into.append(item)
        return into

    made = tool(collect)
    made(**made.bind({"item": "a"}))

    assert made(**made.bind({"item": "b"})) == ["a", "b"]


# -- definitions ---------------------------------------------------------------------------------


def test_a_tool_can_still_be_called() -> None:
    @tool
    def double(number: int) -> int:
        """Double."""
        return 2 * number

    assert double(4) == double(number=4) == 8


def test_the_decorator_takes_a_time_limit() -> None:
    @tool(timeout=1.5)
    def slow() -> None: ...

    assert isinstance(slow, Tool)
    assert slow.timeout == 1.5 and tool(nothing).timeout is None


def test_a_plain_function_and_a_method_are_made_tools() -> None:
    class Shop:
        async def buy(self, item: str) -> str:
            """Buy."""
            return item

    made = as_tool(Shop().buy)

    assert made.is_async and made.name == "buy"
    assert made.schema.parameters == an_object({"item": {"type": "string"}}, ["item"])
    assert as_tool(made) is made


def star(*cities: str) -> None: ...
def stars(**cities: str) -> None: ...
def only(city: str, /) -> None: ...
def odd(city: complex) -> None: ...
def called(city: Callable[[], str]) -> None: ...


@pytest.mark.parametrize("function", [star, stars, only, odd, called])
def test_a_function_that_no_schema_fits_is_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(ToolDefinitionError, match=f"'{function.__name__}'"):
        tool(function)


def test_a_hint_that_names_nothing_is_refused_by_name() -> None:
    def lost(city: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - on purpose

    with pytest.raises(ToolDefinitionError, match=r"'lost'.*Nowhere"):
        tool(lost)


def test_two_tools_of_one_name_are_refused() -> None:
    def look() -> None: ...

    other = look

    with pytest.raises(ToolDefinitionError, match="'look'"):
        Agent("a", model=ScriptedModel([]), tools=[look, other])


@pytest.mark.parametrize("name", ["get weather", "größe", "a" * 65, "<lambda>"])
def test_a_name_that_providers_refuse_is_refused_at_once(name: str) -> None:
    """OpenAI and Anthropic take ^[a-zA-Z0-9_-]{1,64}$ and answer 400 to all else."""

    def look() -> None: ...

    look.__name__ = name

    with pytest.raises(ToolDefinitionError, match=re.escape(repr(name))):
        tool(look)
