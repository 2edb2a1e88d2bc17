"""How long a check of 10,000 messages takes: `python -m bench.check`, never a timed test."""

from collections.abc import Callable
from time import process_time
from typing import Any

from agent_lab.domain.dialects.check import DIALECTS, check_history

ROUNDS = 3_333


def chat(n: int) -> list[dict[str, Any]]:
    call = f"{n:09}"
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": call, "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": call, "content": "4 degrees"},
        {"role": "user", "content": "and Rome?"},
    ]


def responses(n: int) -> list[dict[str, Any]]:
    return [
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{n}", "output": "4 degrees"},
        {"role": "user", "content": "and Rome?"},
    ]


def anthropic(n: int) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": "4 degrees"}
    return [
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": "and Rome?"},
    ]


def gemini(n: int) -> list[dict[str, Any]]:
    response = {"name": "f", "response": {"result": n}}
    return [
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
        {"role": "user", "parts": [{"text": "and Rome?"}]},
    ]


ROUND: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "anthropic": anthropic,
    "gemini": gemini,
    "openai_responses": responses,
    "deepseek_responses": responses,
}


def milliseconds(repeat: int = 5) -> dict[str, float]:
    """For each dialect the best of some runs, in CPU time."""
    taken: dict[str, float] = {}
    for dialect in DIALECTS:
        history = [m for n in range(ROUNDS) for m in ROUND.get(dialect, chat)(n)]
        times: list[float] = []
        for _ in range(repeat):
            start = process_time()
            check_history(history, dialect)
            times.append(1_000 * (process_time() - start))
        taken[dialect] = round(min(times), 1)
    return taken


def main() -> None:
    """Print the table."""
    print("| dialect | ms for 10,000 messages |\n|---|---|")
    for dialect, taken in milliseconds().items():
        print(f"| {dialect} | {taken} |")


if __name__ == "__main__":
    main()
