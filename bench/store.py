"""What the store costs: how much it writes, and how long an accept waits for its commit.

    python -m bench.store [--folder DIR]

Changes are written as a busy server does, many behind one another, and counted until all are
committed. An accept is one record that is waited for: alone, and with eight at a time, who share
their commits. Each commit is synced, so the folder's disk decides.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from agent_lab.domain.records import Record, Row
from agent_lab.infrastructure.sqlite import SqliteStore

CHANGES, ACCEPTS, CALLERS = 20_000, 400, 8
BODY = b'{"type":"text_delta","turn":1,"step":1,"text":"%s"}' % (b"word " * 20)


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="bench.store", description="the store on SQLite")
    options.add_argument("--folder", type=Path, help="where the file lies; a temporary one if not")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        rate, alone, shared = asyncio.run(measured(Path(folder, "store/lab.db")))
    print(f"{rate:,.0f} entries a second are written and synced")
    print(f"an accept waits {alone[0]:.1f} ms in the median, {alone[1]:.1f} ms at the 95th")
    print(f"with {CALLERS} at a time {shared[0]:.1f} ms, {shared[1]:.1f} ms at the 95th")
    return 0


async def measured(
    file: Path,
) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """Entries a second, and median and 95th percentile of an accept: alone, and shared."""
    store = SqliteStore(file)
    try:
        rate = await written(store)
        alone = await accepted(store, "alone", callers=1)
        return rate, alone, await accepted(store, "shared", callers=CALLERS)
    finally:
        await store.close()


async def written(store: SqliteStore) -> float:
    """Entries a second."""
    began, last = time.perf_counter(), asyncio.get_running_loop().create_future()
    for seq in range(1, CHANGES + 1):
        last = store.write([Row("epoch", seq, 1.0, "text_delta", BODY)])
        if not seq % 100:  # as a loop that has other things to do
            await asyncio.sleep(0)
    await store.sure(last)
    return CHANGES / (time.perf_counter() - began)


async def accepted(store: SqliteStore, name: str, *, callers: int) -> tuple[float, float]:
    """Median and 95th percentile in milliseconds."""
    waited: list[float] = []

    async def caller(number: int) -> None:
        for turn in range(ACCEPTS // callers):
            began = time.perf_counter()
            record = Record("execution", f"{name} {number} {turn}", "a", "queued", 1.0, BODY)
            await store.sure(store.write([record]))
            waited.append(1000 * (time.perf_counter() - began))

    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(caller(number))
    return statistics.median(waited), statistics.quantiles(waited, n=20)[18]


if __name__ == "__main__":
    raise SystemExit(main())
