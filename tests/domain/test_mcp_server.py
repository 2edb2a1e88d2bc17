"""How an MCP server is said, and what its tools are called."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_lab import Agent, McpServer
from agent_lab.domain.errors import ToolDefinitionError
from agent_lab.domain.mcp_server import local_name, server_said
from agent_lab.testing import ScriptedModel

FITS_ALL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def test_a_command_is_split_as_a_shell_would() -> None:
    said = server_said("files=npx -y server-files '/my files'")

    assert said == McpServer("files", command=["npx", "-y", "server-files", "/my files"])


def test_an_address_is_one() -> None:
    assert server_said("far=https://tools.example/mcp").url == "https://tools.example/mcp"


@pytest.mark.parametrize("text", ["files", "=npx", "files=", "files='npx", "fi les=x", "a__b=x"])
def test_what_names_no_server_is_refused(text: str) -> None:
    with pytest.raises(ToolDefinitionError):
        server_said(text)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": "x", "url": "http://a/"},
        {"url": "file:///etc"},
        {"command": "x", "timeout": 0},
    ],
)
def test_a_server_that_cannot_be_reached_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ToolDefinitionError):
        McpServer("x", **fields)  # type: ignore[arg-type]  # that is the fault


def test_two_servers_of_one_name_are_refused() -> None:
    twice = [McpServer("x", command="a"), McpServer("x", command="b")]

    with pytest.raises(ToolDefinitionError, match="two MCP servers named 'x'"):
        Agent("test", model=ScriptedModel([]), mcp_servers=twice)


@pytest.mark.fault("R45")
@given(tool=st.text(min_size=1, max_size=200), server=st.from_regex(r"[a-z]{1,24}", fullmatch=True))
def test_every_name_fits_every_provider(tool: str, server: str) -> None:
    name = local_name(server, tool)

    assert FITS_ALL.fullmatch(name)
    assert name == local_name(server, tool)


@pytest.mark.fault("R45")
def test_names_that_would_come_to_one_are_told_apart() -> None:
    names = [
        local_name("files", tool) for tool in ("read.file", "read/file", "x" * 70, "x" * 71, "read")
    ]

    assert len(set(names)) == len(names)
    assert names[-1] == "files__read"
