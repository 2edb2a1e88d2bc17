"""Schemathesis against a real server: what its document allows or forbids is answered so.

python scripts/fuzz.py [--max-examples N] [any option of `schemathesis run`]
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

AGENT = """\
from agent_lab import Agent
from agent_lab.testing import ScriptedModel

agent = Agent("fuzzed", model=ScriptedModel(["Well."], repeat_last=True))
"""
EXAMPLES = "25"
# A turn that fails or takes too long is the agent's affair; the document has its statuses.
CONFIG = """\
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]
"""
BIN = Path(sys.executable).parent
# Ids are invented, so most are not found; and OPTIONS is refused before any route is looked at.
LEFT_OUT = "positive_data_acceptance,allow_header_conformance"


def main(options: list[str]) -> int:
    """Start a server, have it asked, stop it; schemathesis' exit code."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "fuzzed.py")
        file.write_text(AGENT, encoding="utf-8")
        config = Path(folder, "schemathesis.toml")
        config.write_text(CONFIG, encoding="utf-8")
        command = [BIN / "agent-lab", "serve", file, "--no-browser"]
        with subprocess.Popen(  # noqa: S603 - our own server
            command, stdout=subprocess.PIPE, text=True, cwd=folder, env=os.environ
        ) as server:
            try:
                assert server.stdout is not None
                url = urlsplit(server.stdout.readline().strip())
                token = url.fragment.removeprefix("token=")
                return ask(f"http://{url.netloc}", token, ["--config-file", str(config)], options)
            finally:
                server.terminate()


def ask(address: str, token: str, config: list[str], options: list[str]) -> int:
    """Run schemathesis over all operations."""
    asked = [
        *(BIN / "schemathesis", *config, "run", f"{address}/api/openapi.json"),
        *("--header", f"Authorization: Bearer {token}", "--exclude-checks", LEFT_OUT),
        *("--max-examples", EXAMPLES, "--request-timeout", "10", "--warnings", "off"),
    ]
    return subprocess.run([*asked, *options], check=False).returncode  # noqa: S603 - our own tool


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
