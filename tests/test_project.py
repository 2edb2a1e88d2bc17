"""What a stranger gets: a wheel with the page in it, a lock that fits, tests that stay at home."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/agent_lab"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ \n]+)[^\n]*(?: \\\n    --hash=sha256:[0-9a-f]{64})+$",
    re.MULTILINE,
)


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints; its error text is in the failure's report."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the locked backend and without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("-m", "uv", "build", "--wheel", "--offline", "--no-build-isolation")
    run(*build, "--python", sys.executable, "--out-dir", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_whole_package(wheel: Path) -> None:
    source = {
        f"agent_lab/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("agent_lab/")}

    assert held == source
    assert {"agent_lab/py.typed", "agent_lab/static/index.html"} <= held


def test_the_installed_wheel_imports_with_its_page(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "site"
    install = ("-m", "uv", "pip", "install", "--offline", "--no-deps", "--target", home)
    run(*install, "--python", sys.executable, wheel, cwd=tmp_path)

    script = "import agent_lab; print(agent_lab.__file__)"
    printed = run("-c", script, cwd=tmp_path, PYTHONPATH=str(home))

    assert Path(printed.strip()) == home / "agent_lab/__init__.py"
    assert (home / "agent_lab/static/index.html").is_file()


def test_the_wheel_names_its_command_and_its_pytest_plugin(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))

    assert archive.read(name).decode().split() == [
        *("[console_scripts]", "agent-lab", "=", "agent_lab.presentation.cli:main"),
        *("[pytest11]", "agent_lab", "=", "agent_lab.presentation.pytest_plugin"),
    ]


def test_every_dependency_is_pinned_with_hashes() -> None:
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(one for extra in project.get("optional-dependencies", {}).values() for one in extra),
        *(one for group in PROJECT["dependency-groups"].values() for one in group),
        *PROJECT["build-system"]["requires"],
    ]
    pins = {pin["name"]: pin["version"] for pin in PIN.finditer(lock())}

    def is_pinned(requirement: Requirement) -> bool:
        version = pins.get(canonicalize_name(requirement.name))
        return version is not None and requirement.specifier.contains(version)

    assert [one for one in wanted if not is_pinned(Requirement(one))] == []


def test_the_lock_holds_pins_and_nothing_else() -> None:
    rest = PIN.sub("", lock())

    assert [line for line in rest.splitlines() if line and not re.match(r" *#", line)] == []


def test_the_lock_names_no_index_and_no_path() -> None:
    assert re.findall(r".*(?://|file:|--index|--find-links|\s/).*", lock()) == []


@pytest.mark.parametrize("path", ["uv.lock", ".venv/", ".tools/", "dist/"])
def test_git_ignores(path: str) -> None:
    ignored = subprocess.run(["git", "check-ignore", "--quiet", path], cwd=ROOT, check=False)

    assert ignored.returncode == 0


async def test_a_test_cannot_leave_this_machine() -> None:
    # 224.0.0.1 is a multicast address: were the bar broken, no TCP packet could leave for it.
    with pytest.raises(Exception, match="use a server of your own"):
        await asyncio.open_connection("224.0.0.1", 80)
    with pytest.raises(Exception, match="use a server of your own"):
        socket.getaddrinfo("outside.invalid", 80)


async def test_a_test_reaches_its_own_server() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "localhost")
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await reader.read() == b""
        writer.close()


def lock() -> str:
    return (ROOT / "requirements.lock").read_text(encoding="utf-8")
