"""Pictures of the page in each of its states, for README and docs/page.md.

    .venv/bin/python -m scripts.screenshots [FOLDER] [--all] [STATE …]

Without --all: what the docs show, into docs/images. With it: each state at 1440, 1280 and 390
pixels, light and dark. Serves the page itself and drives a Chromium (`CHROMIUM` names another one).
"""

import argparse
import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, async_playwright

from agent_lab.presentation.demo import demo_agent
from scripts.scenes import STATES, State, theatre
from tests.browser.helpers_page import Guide

ROOT = Path(__file__).parents[1]
HEIGHTS = {1440: 900, 1280: 800, 390: 844}
Scheme = Literal["light", "dark"]
Shot = tuple[str, int, Scheme]


def main() -> None:
    options = argparse.ArgumentParser(description="Pictures of the page in each of its states.")
    options.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs" / "images")
    options.add_argument("states", nargs="*", help="only these")
    options.add_argument("--all", action="store_true", help="every size and scheme")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    shots = [
        shot
        for shot in (everything() if chosen.all else shown())
        if not chosen.states or shot[0] in chosen.states
    ]
    asyncio.run(take(shots, chosen.folder))


def shown() -> list[Shot]:
    """What the docs show: each state once, some narrow ones, the held one in the dark too."""
    wide = [name for name in STATES if not name.startswith("tab-")]
    narrow = ("held", "tab-timeline", "tab-entries", "tab-inspector")
    return [
        *((name, 1440, "light") for name in wide),
        ("held", 1440, "dark"),
        *((name, 390, "light") for name in narrow),
    ]


def everything() -> list[Shot]:
    """Each state at each size in which it can be had, light and dark."""
    return [
        (name, width, scheme)
        for name, state in STATES.items()
        for width in HEIGHTS
        for scheme in ("light", "dark")
        if (state.narrow if width == 390 else not name.startswith("tab-"))
    ]


def named(name: str, width: int, scheme: Scheme) -> str:
    """README's own two are `light` and `dark`."""
    if name == "held" and width == 1440:
        return scheme
    return f"{name}{f'-{width}' if width != 1440 else ''}{'-dark' if scheme == 'dark' else ''}"


async def take(shots: list[Shot], folder: Path) -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chrome")
    async with async_playwright() as play:
        browser = await play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, width, scheme in shots:
            path = folder / f"page-{named(name, width, scheme)}.png"
            await picture(browser, STATES[name], width, scheme, path)
            sys.stderr.write(f"{path}\n")
        await browser.close()


async def picture(browser: Browser, state: State, width: int, scheme: Scheme, path: Path) -> None:
    """Play the scene on a server of its own, and look."""
    scene = state.narrow if width == 390 and state.narrow else state.scene
    guide = Guide()
    async with theatre(guide, demo_agent(pace=2), guide.agent, *state.cast()) as stage:
        context = await browser.new_context(
            viewport={"width": width, "height": HEIGHTS[width]}, color_scheme=scheme
        )
        page = await context.new_page()
        page.set_default_timeout(180_000)  # a picture may take its time
        await scene(stage, page)
        await page.mouse.move(700, 5)  # points at nothing
        await page.wait_for_timeout(250)
        await page.screenshot(path=path)
        await context.close()


if __name__ == "__main__":
    main()
