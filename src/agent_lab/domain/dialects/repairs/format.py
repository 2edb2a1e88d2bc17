"""A list in one provider's format, written anew in another's."""

from agent_lab.domain.dialects.check import DIALECTS
from agent_lab.domain.dialects.formats import foreign
from agent_lab.domain.dialects.reading import read_wire
from agent_lab.domain.dialects.repairs.passes import Pass
from agent_lab.domain.dialects.rules.reading import Wire
from agent_lab.domain.dialects.rules.rule import History
from agent_lab.domain.dialects.writing import write_wire


def _to_format(history: History) -> list[Wire]:
    own = DIALECTS[history.dialect].format
    mark = foreign(history.messages, own)
    if mark is None:
        return history.messages
    said = [read.message for read in read_wire(history.messages, mark.format)]
    return [wire for _, wire in write_wire(said, own, model=history.profile.model)]


TO_FORMAT = Pass("to_format", "the list was in another provider's format", _to_format)
