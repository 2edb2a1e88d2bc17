"""`FILE.py[:agent]`: the agent that a Python file defines.

AgentFileError
  FileMissing     there is no such file
  FileRaised      the file raised, or does not parse; chained from what it raised
  NoAgent         nothing in it is an Agent, or not under that name
  SeveralAgents   more than one, and nothing says which
"""

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from agent_lab.application.agent import Agent
from agent_lab.domain.errors import AgentLabError


class AgentFileError(AgentLabError):
    """A file that gives no agent."""


class FileMissing(AgentFileError):
    """There is no such file."""


class FileRaised(AgentFileError):
    """The file could not be run to its end."""


class NoAgent(AgentFileError):
    """The file has no such agent."""


class SeveralAgents(AgentFileError):
    """The file has several agents and none is called `agent`."""


def load_agent(where: str) -> Agent:
    """The agent at `FILE.py` or `FILE.py:name`; the file is run.

    Without a name: the one Agent in the file, else the one called `agent`. Its folder is put
    first on `sys.path`, as `python FILE.py` does. Raises AgentFileError.
    """
    path, name = _split(where)
    if not path.is_file():
        raise FileMissing(f"there is no file {str(path)!r}; give a Python file that makes an Agent")
    module = _run(path)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Agent)}
    if name is not None:
        return _named(path, name, module, found)
    different = list({id(agent): agent for agent in found.values()}.values())
    if len(different) == 1:
        return different[0]
    if "agent" in found:
        return found["agent"]
    if not found:
        raise NoAgent(f"{path} makes no Agent; add agent = Agent(name=…, model=…, tools=[…])")
    raise SeveralAgents(f"{path} has {_list(found)}; say which: {path}:{next(iter(found))}")


def _split(where: str) -> tuple[Path, str | None]:
    """`a.py:b` is file and name; `C:\\a.py` and `a.py` are files."""
    path, colon, name = where.rpartition(":")
    if colon and name.isidentifier() and not Path(where).is_file():
        return Path(path), name
    return Path(where), None


def _run(path: Path) -> ModuleType:
    name = f"agent_lab_file_{path.stem}"  # not the bare stem, which may be a module's name
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NoAgent(f"{path} is no Python file; its name must end in .py")
    module = module_from_spec(spec)
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module  # dataclasses and type hints look their module up there
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        del sys.modules[name]
        raise FileRaised(f"{_place(path, error)}: {_said(error)}; mend the file") from error
    return module


def _named(path: Path, name: str, module: ModuleType, found: dict[str, Agent]) -> Agent:
    if name in found:
        return found[name]
    there = f"it has {_list(found)}" if found else "it makes no Agent"
    if hasattr(module, name):
        kind = type(getattr(module, name)).__name__
        raise NoAgent(f"{name!r} in {path} is a {kind}, not an Agent; {there}")
    raise NoAgent(f"{path} has no {name!r}; {there}")


def _place(path: Path, error: BaseException) -> str:
    """`file:line` where the file itself was when it raised, or cannot be parsed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == path.absolute()]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _said(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _list(found: dict[str, Agent]) -> str:
    return ", ".join(f"{key} ({agent.name!r})" for key, agent in found.items())
