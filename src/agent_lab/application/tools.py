"""Tools: plain functions, described to the model by their type hints and docstring."""

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar, cast, get_type_hints, overload

import msgspec

from agent_lab.domain.errors import ToolDefinitionError
from agent_lab.domain.messages import ToolSchema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch  # OpenAI and Anthropic answer 400 otherwise


Approval = bool | Callable[[dict[str, Any]], bool]
"""Which calls of a tool somebody has to allow: none, all, or those this is true of."""


class Tool:
    """A function the model may call.

    `schema` is what the model is told. Calling the tool calls the function. `timeout` is in
    seconds; None means the session's limit. `needs_approval` says which calls somebody has to
    allow before they run: none, all, or those whose arguments it is true of.
    """

    __slots__ = (
        "_arguments",
        "_names",
        "function",
        "is_async",
        "needs_approval",
        "schema",
        "timeout",
    )
    wants_call: ClassVar[bool] = False
    """Whether it asks, through a context variable, which call it answers."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        timeout: float | None = None,
        needs_approval: Approval = False,
    ) -> None:
        """Read the function's signature; raises ToolDefinitionError for one without a schema."""
        if not isinstance(needs_approval, bool) and not _is_predicate(needs_approval):
            raise ToolDefinitionError(
                f"tool {function.__name__!r}: needs_approval is {needs_approval!r}; give True, "
                "False, or a plain function of the arguments (a dict) that gives a bool"
            )
        if not _NAME(function.__name__):
            raise ToolDefinitionError(
                f"a tool cannot be named {function.__name__!r}: providers take 1 to 64 letters, "
                "digits, _ and -; define it with `def`, under such a name"
            )
        self.function = function
        self.timeout = timeout
        self.needs_approval = needs_approval
        self.is_async = inspect.iscoroutinefunction(function)
        self._arguments = _arguments_type(function)
        self._names = self._arguments.__struct_fields__
        self.schema = ToolSchema(
            function.__name__, inspect.getdoc(function) or "", _json_schema(self._arguments)
        )

    @property
    def name(self) -> str:
        """The function's name."""
        return self.schema.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the hints want them; raises ValueError naming the one at fault."""
        value = msgspec.convert(arguments, self._arguments, dec_hook=_from_foreign)
        bound: dict[str, Any] = {}
        for name in self._names:  # a comprehension is a call more
            bound[name] = getattr(value, name)
        return bound


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *, timeout: float | None = None, needs_approval: Approval = False
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    timeout: float | None = None,
    needs_approval: Approval = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async.

    The JSON Schema comes from the type hints, the description from the docstring. A sync function
    runs in a thread of its own, so it may block. `timeout` is in seconds.

    With `needs_approval=True` each call waits until somebody allows it: on the page, in the
    terminal, or with `runtime.permissions.answer()`. A function of the arguments, as the dict that
    the model gave, says which calls do; it runs on the event loop and must not block. One that
    raises asks. A call that nobody answers within `Limits.permission` is denied.
    """
    if function is not None:
        return Tool(function)

    def decorate(decorated: Callable[..., Any]) -> Tool:
        return Tool(decorated, timeout=timeout, needs_approval=needs_approval)

    return decorate


def as_tool(candidate: Tool | Callable[..., Any]) -> Tool:
    """A plain function given where a tool is wanted is made one."""
    return candidate if isinstance(candidate, Tool) else Tool(candidate)


def _is_predicate(candidate: object) -> bool:
    """Whether it can be asked at once; a coroutine function would always seem to say yes."""
    return callable(candidate) and not inspect.iscoroutinefunction(candidate)


def _arguments_type(function: Callable[..., Any]) -> type[msgspec.Struct]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"tool {function.__name__!r}: a type hint names nothing: {error}; import it at the top "
            "of the module"
        ) from error
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"tool {function.__name__!r}: parameter {name!r} cannot be given by name; "
                "use plain named parameters"
            )
        hint = hints.get(name, Any)
        default = parameter.default
        fields.append((name, hint) if default is parameter.empty else (name, hint, _keep(default)))
    return msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def _keep(default: Any) -> Any:
    """A mutable default is handed to each call as the function's own would be."""
    if isinstance(default, list | dict | set | bytearray):
        return msgspec.field(default_factory=lambda: default)  # type: ignore[reportUnknownLambdaType]  # any container
    return default


def _json_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    try:
        (schema,), components = msgspec.json.schema_components(
            [arguments], ref_template="#/$defs/{name}", schema_hook=_foreign_schema
        )
    except (TypeError, NotImplementedError) as error:
        raise ToolDefinitionError(
            f"tool {arguments.__name__!r}: no JSON Schema for its type hints ({error}); use plain "
            "types, dataclasses, TypedDicts, msgspec structs or pydantic models"
        ) from error
    own = components.pop(arguments.__name__, schema)
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": own.get("properties", {}),
        "required": own.get("required", []),
        "additionalProperties": False,
    }
    definitions = dict(components)
    _lift(parameters, definitions, arguments.__name__)
    if definitions:
        parameters["$defs"] = definitions
    return parameters


def _lift(schema: Any, definitions: dict[str, Any], tool: str) -> None:
    """Move a foreign schema's own `$defs` to the root, where its `#/$defs/…` references look."""
    if isinstance(schema, list):
        for part in cast("list[Any]", schema):
            _lift(part, definitions, tool)
    if not isinstance(schema, dict):
        return
    parts = cast("dict[str, Any]", schema)
    for name, definition in parts.pop("$defs", {}).items():
        if definitions.setdefault(name, definition) != definition:
            raise ToolDefinitionError(
                f"tool {tool!r}: two different types are named {name!r}; rename one"
            )
        _lift(definition, definitions, tool)
    for part in parts.values():
        _lift(part, definitions, tool)


def _foreign_schema(hint: Any) -> dict[str, Any]:
    """Schemas of pydantic models, without importing pydantic."""
    if hasattr(hint, "model_json_schema"):
        return hint.model_json_schema()
    raise NotImplementedError(f"{hint!r} has no schema")


def _from_foreign(hint: Any, value: Any) -> Any:
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    raise NotImplementedError(f"{hint!r} cannot be read")
