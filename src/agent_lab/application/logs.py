"""The one logger, and what keeps secrets and forged lines out of it.

The filter works on the record itself, so it holds for whatever handler a program has installed.
"""

import logging
import traceback

from agent_lab.domain.redaction import SECRETS

_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0), 0x2028, 0x2029)}


class CleanRecords(logging.Filter):
    """Takes secrets out of a record and its traceback, and control characters out of its line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: nothing is dropped."""
        try:
            said = record.getMessage()
        except Exception:  # noqa: BLE001 a wrong format string is no reason to lose the line
            said = str(record.msg)
        record.msg, record.args = SECRETS.redact(said).translate(_SHOWN), ()
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            raised = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
            record.exc_text, record.exc_info = SECRETS.redact(raised), None
        return True


_CLEAN = CleanRecords()


def clean_logs(*names: str) -> None:
    """Have these loggers' own records cleaned; may be called again."""
    for name in names:
        logging.getLogger(name).addFilter(_CLEAN)


log = logging.getLogger("agent_lab")
clean_logs(log.name)
