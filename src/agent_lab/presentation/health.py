"""`GET /healthz`: named problems; without the token their names only."""

from agent_lab.application.agents import Agents
from agent_lab.application.invariants import Problem
from agent_lab.domain.errors import StorageError


async def health_of(agents: Agents) -> list[Problem]:
    """What is wrong now; empty when all is well."""
    line, found = agents.line, list[Problem]()
    archive = agents.kept.archive
    fault = archive.store.fault if archive is not None else None
    try:
        await line.store.committed()
    except StorageError as error:
        fault = fault or error
    if fault is not None:
        found.append(Problem(fault.code, f"{fault}; {fault.hint}"))
    if faults := line.keeper.faults + line.book.faults:
        found.append(Problem("line_faults", f"{faults} times somebody was not told; see the log"))
    for served in agents.kept.haunted[:10]:
        names = ", ".join(served.runtime.session.abandoned.names[:10])
        said = f"session {served.session_id!r} was left by what ignores its end: {names}"
        found.append(Problem("abandoned_work", said))
    return found + await line.check()
