"""Compare agent_lab with the floor and the two fastest peers, all in one run.

    python -m bench [--peers DIR] [--rounds N] [--quick]

DIR holds `peers/` (bench_floor.py, common.py and the peers) and, for the peers that are to be
measured too, `venvs/<peer>`; without them only the floor is. Rounds are interleaved, and figures
are medians over rounds: only ratios of one run mean anything.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PEERS = ("agent_framework", "agno")
TURNS = (10, 100, 400)
REPETITIONS = {1: 30, 10: 12, 100: 6, 400: 4}
OURS = Path(__file__).with_name("peer.py")

Figures = dict[tuple[str, str], list[float]]


def main() -> int:
    """Run the rounds, print the tables."""
    options = argparse.ArgumentParser(
        prog="bench", description="agent_lab, the floor and two peers"
    )
    options.add_argument("--peers", type=Path, default=Path("../shared/bench"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--quick", action="store_true", help="one round, no 400 turns")
    chosen = options.parse_args()
    scripts = chosen.peers / "peers"
    if not (scripts / "bench_floor.py").exists():
        sys.stderr.write(f"bench: no bench_floor.py in {scripts}; name its folder with --peers\n")
        return 2
    turns = TURNS[:-1] if chosen.quick else TURNS
    figures: Figures = {}
    for number in range(1 if chosen.quick else chosen.rounds):
        for who, command, viewer in runners(chosen.peers):
            sys.stderr.write(f"round {number + 1}: {who}\n")
            measure(figures, who, command, viewer, scripts, turns)
    report(figures, turns)
    return 0


def runners(folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """Who runs: name, command without options, and who looks on."""
    scripts = folder / "peers"
    yield "floor", [sys.executable, str(scripts / "bench_floor.py")], "none"
    for viewer in ("none", "follow", "wire"):
        yield f"agent_lab, viewer {viewer}", [sys.executable, str(OURS)], viewer
    for peer in PEERS:
        python = folder / "venvs" / peer / "bin" / "python"
        if python.exists():
            yield peer, [str(python), str(scripts / f"bench_{peer}.py")], "none"


def measure(
    figures: Figures,
    who: str,
    command: list[str],
    viewer: str,
    scripts: Path,
    turns: tuple[int, ...],
) -> None:
    """Add this round's figures: microseconds a tool turn, memory, cold start."""
    path = os.pathsep.join([str(scripts.resolve()), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "VIEWER": viewer, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}

    def run(*options: str) -> dict[str, Any]:
        started = {**env, "BENCH_T0_NS": str(time.time_ns())}
        done = subprocess.run(
            [*command, "--json", *options], env=started, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"bench: {who} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def add(what: str, value: float) -> None:
        figures.setdefault((who, what), []).append(value)

    for count in turns:
        spent = run("--turns", str(count), "--reps", str(REPETITIONS[count]))
        add(f"{count} turns", spent["us_quiet"] or spent["us_per_turn"])
    if viewer != "none":
        return
    cold = [run("--cold") for _ in range(3)]
    add("import", statistics.median(c["import_ms"] for c in cold))
    add("first payload", statistics.median(c["first_event_ms"] for c in cold))
    add("memory", run("--turns", "10", "--sessions", "1000", "--mem")["idle_kib_per_session"])
    if who != "floor" and "agent_lab" in who:
        add("idle", idle(env))


def idle(env: dict[str, str]) -> float:
    """KiB of a session that was started, answered one message without tools, and rests."""
    code = (
        "import asyncio, gc, sys; sys.path.insert(0, sys.argv[1])\n"
        "import common, peer\n"
        "async def main():\n"
        "    session = peer.setup()\n"
        "    warm = [await session(0, True) for _ in range(50)]\n"
        "    gc.collect(); before = common.rss_kib()\n"
        "    kept = [await session(0, True) for _ in range(1000)]\n"
        "    gc.collect(); print((common.rss_kib() - before) / len(kept))\n"
        "asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(OURS.parent)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def report(figures: Figures, turns: tuple[int, ...]) -> None:
    """Print the medians, and the ratios to the floor."""
    names = list(dict.fromkeys(who for who, _ in figures))
    middle = {key: statistics.median(values) for key, values in figures.items()}
    print(f"\n| us a tool turn | {' | '.join(map(str, turns))} | to the floor |")
    print(f"|---|{'---|' * (len(turns) + 1)}")
    for who in names:
        mine = [middle[who, f"{count} turns"] for count in turns]
        floor = [middle["floor", f"{count} turns"] for count in turns]
        ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(mine, floor, strict=True))
        print(f"| {who} | {' | '.join(f'{value:.1f}' for value in mine)} | {ratios} |")
    print("\n| | import ms | first payload ms | KiB a session of 10 turns | KiB an idle session |")
    print("|---|---|---|---|---|")
    for who in names:
        if (who, "import") in middle:
            row = [middle[who, what] for what in ("import", "first payload", "memory")]
            resting = f"{middle[who, 'idle']:.1f}" if (who, "idle") in middle else ""
            print(f"| {who} | {' | '.join(f'{value:.1f}' for value in row)} | {resting} |")


if __name__ == "__main__":
    raise SystemExit(main())
