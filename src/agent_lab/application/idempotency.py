"""Idempotency keys: the same request again is answered with the execution it had, and runs nothing.

A key lies on the record of its execution, so it lasts as long as that does and needs no table of
its own. Here is only what is on its way to a record.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from agent_lab.application.executions import Executions
from agent_lab.domain.errors import NotAdmitted, StorageError
from agent_lab.domain.execution import Execution, Kind

log = logging.getLogger("agent_lab")


class Claim(msgspec.Struct):
    """What a key came to: the finished execution to `replay`, or none and the right to run.

    `is_unchecked`: the store could not be asked, so it runs and says so (S79).
    """

    replay: Execution | None = None
    is_unchecked: bool = False


class Keys:
    """Keys in use, for `keep` seconds after their execution was asked for."""

    def __init__(self, book: Executions, *, keep: float) -> None:
        self._book = book
        self._keep = keep
        self._arriving: dict[tuple[str, Kind, str], str] = {}

    @asynccontextmanager
    async def claim(
        self, agent_name: str, kind: Kind, key: str | None, digest: str
    ) -> AsyncGenerator[Claim, None]:
        """Hold the key while its execution is being admitted; free again if it is not.

        `digest` is the body's. Raises NotAdmitted: `key_reused` for another body,
        `request_in_progress` while the first is under way.
        """
        if key is None:
            yield Claim()
            return
        scope = agent_name, kind, key
        if (held := self._arriving.get(scope)) is not None:
            raise _refusal(key, None, same=held == digest)
        self._arriving[scope] = digest
        try:
            yield await self._look(agent_name, kind, key, digest)
        finally:
            del self._arriving[scope]

    async def _look(self, agent_name: str, kind: Kind, key: str, digest: str) -> Claim:
        try:
            found = await self._book.store.by_key(agent_name, kind, key)
        except StorageError:
            log.exception("idempotency key %r was not looked up; its request runs", key)
            return Claim(is_unchecked=True)
        if found is None or not self._counts(found):
            return Claim()
        if found.body_digest != digest:
            raise _refusal(key, found.id, same=False)
        if not found.is_terminal:
            raise _refusal(key, found.id, same=True)
        return Claim(replay=found)

    def _counts(self, execution: Execution) -> bool:
        """A record that never began has run nothing: its key is free again (S76)."""
        if execution.is_terminal and execution.started_at is None:
            return False
        return execution.queued_at > self._book.now() - self._keep


def _refusal(key: str, execution_id: str | None, *, same: bool) -> NotAdmitted:
    if same:
        return NotAdmitted(
            "request_in_progress",
            f"the request with idempotency key {key!r} is under way",
            hint="wait for its execution, or ask again later with the same key",
            execution_id=execution_id,
        )
    return NotAdmitted(
        "key_reused",
        f"idempotency key {key!r} belongs to a request with another body",
        hint="use a new key for a new request",
        execution_id=execution_id,
    )
