"""What a model or a tool says is text: escapes in it are shown, not obeyed."""

_C0 = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_C1_AND_DIRECTION = (
    *range(0x7F, 0xA0),
    *(0x61C, 0x200E, 0x200F, 0xFEFF),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
_ESCAPED = {code: f"\\u{code:04x}" for code in _C1_AND_DIRECTION}
_SHOWN = _ESCAPED | _C0


def visible(text: str) -> str:
    """The text with every control character made visible: escape is ␛, U+202E is \\u202e.

    So a tool's output can neither move the cursor, nor set a title, nor turn the line around.
    """
    return text.replace("\r\n", "\n").translate(_SHOWN)


def visible_json(line: str) -> str:
    """The same JSON, with what JSON leaves raw and a terminal may obey written as escapes."""
    return line.translate(_ESCAPED)
