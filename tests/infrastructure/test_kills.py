"""SIGKILL at random points of a real server under load; `python -m bench.kills` does 200."""

from pathlib import Path

import pytest

from bench.kills import kill_often


@pytest.mark.fault("S09")
@pytest.mark.timeout(120)
async def test_killed_under_load_a_server_loses_nothing_it_accepted_and_runs_nothing_twice(
    tmp_path: Path,
) -> None:
    counts, wrong = await kill_often(tmp_path, 3, seed=7)

    assert wrong == []
    assert counts["acknowledged"] > 0
