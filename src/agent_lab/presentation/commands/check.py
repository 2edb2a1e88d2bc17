"""`agent-lab check`."""

from collections.abc import Sequence
from pathlib import Path

from agent_lab.presentation.commands.screen import Screen, Unusable
from agent_lab.presentation.foreground import DONE, FAILED
from agent_lab.presentation.history_file import check_file, explain, locate, repair_file


def check(
    screen: Screen,
    file: Path | None,
    dialect: str | None,
    profile: Sequence[str],
    error: str | None,
    *,
    mends: bool,
    as_json: bool,
) -> int:
    """Check or mend a history, or explain an error; the exit status."""
    if error is not None and file is None:
        answer = explain(error, as_json=as_json)
    elif file is None or dialect is None:
        raise Unusable("say agent-lab check FILE.json --dialect openai_chat, or --explain 'ERROR'")
    elif mends:
        answer = repair_file(file, dialect, profile, as_json=as_json)
    elif error is not None:
        answer = locate(error, file, dialect, profile, as_json=as_json)
    else:
        answer = check_file(file, dialect, profile, as_json=as_json)
    screen.line(answer.text)
    return DONE if answer.is_good else FAILED
