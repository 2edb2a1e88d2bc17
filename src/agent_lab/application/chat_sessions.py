"""The one conversation an agent has with all who chat with it: session `chat:NAME`, renewed.

How often it was begun anew, and with which model, is stored where there is a store.
"""

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any

import msgspec

from agent_lab.application.agent import Agent
from agent_lab.application.agents import Agents, UnknownSession
from agent_lab.application.logs import log
from agent_lab.application.ports import Store
from agent_lab.application.served import ServedSession
from agent_lab.domain.errors import AgentLabError, ModelError, NotAdmitted, StorageError
from agent_lab.domain.records import Record, encode

PROVIDERS = ("openai", "openai-responses", "anthropic", "gemini")
"""Kinds of model strings that a request may name: they reach no file and no address of its own."""


class Remembered(msgspec.Struct, frozen=True):
    """What is stored of an agent's conversation besides its session."""

    generation: int
    model: str | None


class ChatSessions:
    """Opens `chat:NAME`, and a fresh one for another model or after a reset.

    `generation` counts from 1 how often an agent's conversation was begun anew.
    """

    def __init__(self, agents: Agents, store: Store | None, now: Callable[[], float]) -> None:
        """`now` is wall time in seconds."""
        self._agents = agents
        self._store = store
        self._now = now
        self._generations: dict[str, int] = {}
        self._models: dict[str, str | None] = {}

    async def load(self) -> None:
        """Begin with what is stored. Before any session is taken up."""
        if self._store is None:
            return
        for record in await self._store.records("chat", limit=10_000):
            try:
                found = msgspec.json.decode(record.body, type=Remembered)
                self.check(self._agents.get(record.agent), found.model)
            except (msgspec.MsgspecError, AgentLabError) as error:
                log.warning("the conversation of %s goes on as it can: %s", record.agent, error)
                continue
            self._generations[record.agent] = found.generation
            self._models[record.agent] = found.model

    def as_it_was(self, agent: Agent, session_id: str) -> Agent:
        """The agent with the model that this session has."""
        if session_id != chat_id(agent.name):
            return agent
        return self.variant(agent, self._models.get(agent.name))

    def generation(self, agent_name: str) -> int:
        """Which conversation this is, from 1."""
        return self._generations.get(agent_name, 1)

    def open(self, agent: Agent, model: str | None) -> ServedSession:
        """The agent's conversation; a fresh one if another model than before is asked for.

        Without a model it goes on with the one it has. Raises ModelError, AgentsClosed.
        """
        name = agent.name
        if model is not None and self._differs(agent, model):
            if self._find(name) is not None:
                self.renew(name)
            self._models[name] = model
            self._remember(name)
        found = self._find(name)
        if found is not None and not found.runtime.is_closed:
            found.is_kept = True  # one from before was taken up by others
            return found
        if found is not None:
            self._agents.replace(found.session_id)
        served = self._agents.open(self.variant(agent, self._models.get(name)), chat_id(name))
        served.is_kept = True
        return served

    def renew(self, agent_name: str) -> int:
        """Close the conversation and begin a new one when it is next needed; its generation."""
        self._agents.replace(chat_id(agent_name))
        self._models.pop(agent_name, None)
        self._generations[agent_name] = self.generation(agent_name) + 1
        self._remember(agent_name)
        return self._generations[agent_name]

    def _remember(self, name: str) -> None:
        if self._store is None:
            return
        body = encode(Remembered(self.generation(name), self._models.get(name)))
        with suppress(StorageError):  # it is closed: the next start begins with what it has
            self._store.write([Record("chat", name, name, "", self._now(), body)])

    def variant(self, agent: Agent, model: str | None) -> Agent:
        """The agent with that model in place of its own, which brings its own address along."""
        if model is None:
            return agent
        owner = self._known_models().get(model)
        changed = copy(agent)
        changed.model = model if owner is None else owner.model
        if owner is None and _kind_of(agent.model) != _kind_of(model):
            changed.base_url, changed.model_options = None, None
        elif owner is not None:
            changed.base_url, changed.model_options = owner.base_url, owner.model_options
        return changed

    def _differs(self, agent: Agent, model: str) -> bool:
        """Whether this is another model than the conversation has."""
        now = self.variant(agent, self._models.get(agent.name)).model
        return self.variant(agent, model).model is not now and model != now

    def check(self, agent: Agent, model: str | None) -> None:
        """Refuse a model that no request may name, or that cannot be had: NotAdmitted."""
        if model is None:
            return
        known = self._known_models()
        kind, _, rest = model.partition(":")
        if model not in known and (kind not in PROVIDERS or not rest):
            raise NotAdmitted(
                "model_not_allowed",
                f"a request may not name the model {model!r}",
                hint=f"name a model of an agent here ({', '.join(known)}), or PROVIDER:MODEL with "
                f"one of {', '.join(PROVIDERS)}",
            )
        try:
            self._agents.probe(self.variant(agent, model))
        except ModelError as error:
            raise NotAdmitted("bad_model", f"{error} ({error.code})", hint=error.hint) from error

    def _find(self, agent_name: str) -> ServedSession | None:
        try:
            return self._agents.session(chat_id(agent_name))
        except UnknownSession:
            return None

    def _known_models(self) -> dict[str, Agent]:
        """The first agent that has a model, by the model's string or its own name."""
        known: dict[str, Agent] = {}
        for agent in map(self._agents.get, self._agents.names):
            name = agent.model if isinstance(agent.model, str) else _name_of(agent.model)
            known.setdefault(name, agent)
        return known


def chat_id(agent_name: str) -> str:
    """The id of the agent's conversation."""
    return f"chat:{agent_name}"


def _name_of(model: Any) -> str:
    return str(getattr(model, "name", None) or getattr(model, "__name__", "model"))


def _kind_of(model: object) -> str:
    return model.partition(":")[0] if isinstance(model, str) else ""
