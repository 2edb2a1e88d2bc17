"""The house's rules, read off the source. Each is shown a planted fault, lest it go blind."""

from __future__ import annotations

import ast
import importlib
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# What a room may import, and the single doors besides. agent_lab itself and testing import all.
ARROWS = {
    "domain": {"domain"},
    "application": {"application", "domain"},
    "infrastructure": {"infrastructure", "domain"},
    "presentation": {"presentation", "application", "domain"},
    "bootstrap": {"infrastructure", "application", "domain"},
}
DOORS = {
    ("infrastructure", "agent_lab.application.ports"),
    ("agent_lab.presentation.cli", "agent_lab.bootstrap"),
    ("agent_lab.presentation.pytest_plugin", "agent_lab.bootstrap"),
    ("agent_lab.presentation.pytest_plugin", "agent_lab.testing"),
}
MODULE_LINES, FUNCTION_LINES = 300, 40
UNWANTED_NAMES = {"base", "common", "helpers", "managers", "misc", "services", "util", "utils"}
CLOCK_AND_CHANCE = {"datetime", "random", "secrets", "time", "uuid"}
IMPURE = {"asyncio", "os", "pathlib", "socket", "subprocess", "threading"}
UNSAFE = {"marshal", "pickle", "shelve"}
BARRED = {
    "domain": CLOCK_AND_CHANCE | IMPURE | UNSAFE,
    "application": CLOCK_AND_CHANCE | UNSAFE,
}
SUPPRESSION = re.compile(
    r"#\s*(?:noqa\b(?::\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?|(?:type|pyright):\s*ignore(?:\[[^\]]*\])?)"
)
# Spelled apart, so that this file does not hold them.
FOREIGN = [
    "/" + "work/",
    *map(".".join, (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("debian", "org"))),
]
Rule = Callable[["Sequence[Module]"], Iterator[str]]


@dataclass(frozen=True)
class Import:
    target: str
    line: int
    deferred: bool
    typing_only: bool


@dataclass(frozen=True)
class Module:
    name: str
    text: str
    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def room(self) -> str:
        return ".".join(self.name.split(".")[1:2])

    def at(self, line: int, fault: str) -> str:
        return f"{self.path}:{line}: {fault}"

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func), node

    def imports(self) -> Iterator[Import]:
        deferred, typing_only = set[ast.AST](), set[ast.AST]()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                deferred.update(ast.walk(node))
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
                typing_only.update(part for child in node.body for part in ast.walk(child))
            for target in self._targets(node):
                yield Import(target, node.lineno, node in deferred, node in typing_only)  # pyright: ignore[reportAttributeAccessIssue] only statements and calls get here

    def _targets(self, node: ast.AST) -> list[str]:
        match node:
            case ast.Import(names=names):
                return [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                within = self.name.split(".")
                within = (
                    within[: len(within) + (self.path.name == "__init__.py") - level]
                    if level
                    else []
                )
                return [".".join([*within, *filter(None, [module]), alias.name]) for alias in names]
            case ast.Call(func=func, args=[ast.Constant(value=str(target)), *_]) if (
                "import" in ast.unparse(func)
            ):
                return [target]
            case _:
                return []


def read(path: Path) -> Module:
    within = path.relative_to(ROOT)
    parts = [part for part in within.with_suffix("").parts if part not in ("src", "__init__")]
    return Module(".".join(parts), path.read_text(encoding="utf-8"), within)


SOURCE = [read(path) for path in sorted((ROOT / "src").rglob("*.py"))]
PYTHON = SOURCE + [
    read(path) for room in ("tests", "bench") for path in sorted((ROOT / room).rglob("*.py"))
]


def ours(target: str, names: set[str]) -> str | None:
    """The module of ours that an import reaches: domain.messages for domain.messages.ToolCall."""
    while target and target not in names:
        target = target.rpartition(".")[0]
    return target or None


def arrows_that_run_back(modules: Sequence[Module]) -> Iterator[str]:
    names = {module.name for module in modules}
    for module in modules:
        if module.room in ("", "testing"):
            continue
        for reach in module.imports():
            if not (target := ours(reach.target, names)) or target == module.name:
                continue
            room = ".".join(target.split(".")[1:2])
            if room not in ARROWS.get(module.room, ()) and not DOORS & {
                (module.room, target),
                (module.name, target),
            }:
                yield module.at(reach.line, f"{module.room} may not import {target}")


def reached_at_run_time(module: Module, names: set[str]) -> Iterator[str]:
    for reach in module.imports():
        target = ours(reach.target, names)
        if target and target != module.name and not reach.typing_only:
            yield target


def circles(modules: Sequence[Module]) -> Iterator[str]:
    names = {module.name for module in modules}
    graph = {module.name: set(reached_at_run_time(module, names)) for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "a circle of imports: " + " <- ".join(error.args[1])


def names_that_load_at_start(modules: Sequence[Module]) -> Iterator[str]:
    names = {module.name for module in modules}
    for module in modules:
        for reach in module.imports():
            if (
                module.name == "agent_lab"
                and ours(reach.target, names)
                and not (reach.deferred or reach.typing_only)
            ):
                yield module.at(
                    reach.line, "names in agent_lab are loaded on first use, not at import"
                )


def barred_imports(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for reach in module.imports():
            if (top := reach.target.partition(".")[0]) in BARRED.get(module.room, UNSAFE):
                yield module.at(reach.line, f"{module.room or module.name} may not import {top}")


def sleeps_of_fixed_length(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for name, call in module.calls():
            match call.args:
                case [ast.Constant(value=float() | int() as seconds)] if (
                    name.endswith("sleep") and seconds
                ):
                    if module.room in ("domain", "application"):
                        yield module.at(call.lineno, "wait for what happens, not for a time")
                case _:
                    pass


def bare_tasks(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        found = [
            module.at(call.lineno, f"{name}: tasks start in a TaskGroup whose name ends in `group`")
            for name, call in module.calls()
            if re.search(r"(^|\.)(create_task|ensure_future)$", name)
            and not name.endswith("group.create_task")
        ]
        # A crew's one root task holds the TaskGroup.
        yield from found[1 if module.name == "agent_lab.application.crew" else 0 :]


def unwanted_calls(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for name, call in module.calls():
            if name in ("eval", "exec", "yaml.load") or "shell=True" in map(
                ast.unparse, call.keywords
            ):
                yield module.at(call.lineno, f"{name} runs what somebody sent")
            if re.search(r"(^|\.)print$", name) and module.name != "agent_lab.presentation.cli":
                yield module.at(call.lineno, "only cli.py prints")


def giants(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        if (lines := len(module.text.splitlines())) >= MODULE_LINES:
            yield module.at(
                1, f"{lines} lines; a module stays under {MODULE_LINES}: split it by what it knows"
            )
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and (lines := length(node)) >= FUNCTION_LINES
            ):
                yield module.at(
                    node.lineno,
                    f"{node.name} has {lines} lines; a function stays under {FUNCTION_LINES}",
                )


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = lines_of(function)
    return lines if ast.get_docstring(function) is None else lines - lines_of(function.body[0])


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def unwanted_names(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        if UNWANTED_NAMES & set(module.name.split(".")):
            yield module.at(1, "a module is named for what it knows")


def suppressions_without_reason(modules: Sequence[Module]) -> Iterator[str]:
    for module in modules:
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            said, found = SUPPRESSION.subn("", token.string)
            if token.type == tokenize.COMMENT and found and not re.search(r"[A-Za-z]{2}", said):
                yield module.at(token.start[0], "say on the line why it is suppressed")


RULES: list[Rule] = [
    arrows_that_run_back,
    circles,
    names_that_load_at_start,
    barred_imports,
    sleeps_of_fixed_length,
    bare_tasks,
    unwanted_calls,
    giants,
    unwanted_names,
]

PLANTED: list[tuple[Rule, dict[str, str]]] = [
    (
        arrows_that_run_back,
        {"domain.a": "from agent_lab.application import b", "application.b": ""},
    ),
    (arrows_that_run_back, {"domain.a": "from ..application.b import c", "application.b": ""}),
    (
        arrows_that_run_back,
        {"application.a": "def f():\n import agent_lab.bootstrap", "bootstrap": ""},
    ),
    (
        arrows_that_run_back,
        {"infrastructure.a": "from agent_lab.application.b import c", "application.b": ""},
    ),
    (
        arrows_that_run_back,
        {"presentation.web": "from agent_lab.infrastructure import b", "infrastructure.b": ""},
    ),
    (
        arrows_that_run_back,
        {"presentation.wire": "from agent_lab import bootstrap", "bootstrap": ""},
    ),
    (
        arrows_that_run_back,
        {"domain.a": "if TYPE_CHECKING:\n import agent_lab.testing", "testing": ""},
    ),
    (arrows_that_run_back, {"domain.a": "import_module('agent_lab.testing')", "testing": ""}),
    (
        circles,
        {
            "domain.a": "from agent_lab.domain.b import c",
            "domain.b": "def f():\n from agent_lab.domain import a",
        },
    ),
    (names_that_load_at_start, {"": "from agent_lab.domain.a import b", "domain.a": ""}),
    (barred_imports, {"domain.a": "import asyncio"}),
    (barred_imports, {"application.a": "from datetime import datetime"}),
    (barred_imports, {"infrastructure.a": "import pickle"}),
    (sleeps_of_fixed_length, {"application.a": "await asyncio.sleep(0.1)"}),
    (bare_tasks, {"application.a": "asyncio.create_task(f())"}),
    (bare_tasks, {"application.a": "self.loop.create_task(f())"}),
    (bare_tasks, {"application.crew": "asyncio.ensure_future(f())\nasyncio.create_task(f())"}),
    (unwanted_calls, {"domain.a": "print(1)"}),
    (unwanted_calls, {"presentation.web": "eval(text)"}),
    (unwanted_calls, {"infrastructure.a": "subprocess.run(line, shell=True)"}),
    (giants, {"domain.a": "x = 1\n" * MODULE_LINES}),
    (giants, {"domain.a": "def f():\n" + "    x = 1\n" * (FUNCTION_LINES - 1)}),
    (unwanted_names, {"application.utils": ""}),
    (suppressions_without_reason, {"domain.a": "x = f()  # noqa: S101"}),
    (suppressions_without_reason, {"domain.a": "x = f()  # type: ignore[arg-type]"}),
]

RIGHT = {
    "": "def __getattr__(name):\n from agent_lab.bootstrap import build",
    "testing": "from agent_lab.bootstrap import build",
    "bootstrap": "from agent_lab.infrastructure.sqlite import Store",
    "presentation.cli": "from agent_lab import bootstrap\nprint(1)",
    "infrastructure.sqlite": "import time\nfrom agent_lab.application.ports import Store",
    "application.ports": "from ..domain import a\nif TYPE_CHECKING:\n from .queues import Queues",
    "application.queues": "from .ports import Store\ngroup.create_task(f())\nasyncio.sleep(0)",
    "application.crew": "self._root = asyncio.create_task(f())",
    "domain.a": "def f():\n    '''" + "Long.\n" * FUNCTION_LINES + "'''",
    "domain.b": "x = f()  # noqa: S101 - the reason",
}


def planted(texts: dict[str, str]) -> list[Module]:
    return [
        Module(f"agent_lab.{name}".rstrip("."), text, Path(name)) for name, text in texts.items()
    ]


@pytest.mark.parametrize("rule", RULES)
def test_source_has_no(rule: Rule) -> None:
    assert list(rule(SOURCE)) == []


def test_every_suppression_gives_its_reason() -> None:
    assert list(suppressions_without_reason(PYTHON)) == []


@pytest.mark.parametrize(("rule", "texts"), PLANTED)
def test_a_planted_fault_is_seen_once(rule: Rule, texts: dict[str, str]) -> None:
    assert len(list(rule(planted(texts)))) == 1


@pytest.mark.parametrize("rule", [*RULES, suppressions_without_reason])
def test_what_the_house_allows_is_not_a_fault(rule: Rule) -> None:
    assert list(rule(planted(RIGHT))) == []


def test_public_names_resolve() -> None:
    package = importlib.import_module("agent_lab")

    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_files_name_no_path_of_one_machine_and_no_registry() -> None:
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]

    assert [
        f"{path}: {word}"
        for path in paths
        for word in FOREIGN
        if word.encode() in path.read_bytes()
    ] == []
