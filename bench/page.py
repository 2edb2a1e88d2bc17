"""How smoothly the page scrolls through 50,000 entries, by the browser's own trace.

    .venv/bin/python -m bench.page

Prints frames a second while the list is scrolled from end to start by a gesture, what a frame costs
the page's main thread, and the longest task of that thread, then and while a tool output of 1 MB
arrives and is opened. Costs are CPU time, which other load hardly moves; frames a second are as
seen, so they mean something on a quiet machine only. 16.7 ms a frame is what 60 a second allow.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from tests.browser.helpers_acts import crowd, giver
from tests.presentation.helpers_server import TOKEN, Serving

CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline.frame"]
PATIENCE = 120_000  # ms
Trace = list[dict[str, Any]]


async def main() -> None:
    """Both measurements, each on a page of its own."""
    async with async_playwright() as play:
        chromium = shutil.which("chromium")
        browser = await play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        async with Serving(crowd(57, width=128), giver("fog until noon, " * 65_536)) as serving:
            await scrolling(browser, serving)
            await megabyte(browser, serving)
        await browser.close()


async def scrolling(browser: Browser, serving: Serving) -> None:
    """The list of entries from its end to its start."""
    client = await serving.run("Go", agent="crowd")
    client.cut()
    page = await opened(browser, serving)
    await page.get_by_role("button", name="Sessions").click()
    await page.locator("button.session").click()
    await page.locator(".found", has_text="51,251").wait_for(timeout=PATIENCE)
    await page.locator(".end").wait_for(timeout=PATIENCE)
    await page.locator(".verdict-badge", has_text="14 dialects").wait_for(timeout=PATIENCE)
    box = await page.locator(".list").bounding_box()
    assert box
    gesture = {"x": box["x"] + 200, "y": box["y"] + 100, "yDistance": 24_000, "speed": 6_000}
    devtools = await page.context.new_cdp_session(page)
    async with traced(browser, page) as trace:
        await devtools.send("Input.synthesizeScrollGesture", gesture)
    fps, frames, seconds = smoothness(trace)
    print(f"entries {await page.locator('.found').inner_text()}")
    print(f"nodes in the page {await page.locator('*').count():,}")
    print(f"scrolling: {fps:.0f} frames a second ({frames} frames in {seconds:.1f} s)")
    print(f"the main thread's CPU: {sum(tasks(trace)) / max(frames, 1):.1f} ms a frame")
    drawn = sum(tasks(trace, "Compositor", "ThreadPoolForegroundWorker", "VizCompositorThread"))
    print(
        f"compositing, raster and display on other threads: {drawn / max(frames, 1):.1f} ms a frame"
    )
    print(f"longest task while scrolling: {max(tasks(trace)):.0f} ms")
    await page.close()


async def megabyte(browser: Browser, serving: Serving) -> None:
    """A tool output of 1 MB arrives, is chosen, and more of it is shown."""
    page = await opened(browser, serving)
    await page.get_by_label("Agent", exact=True).select_option("giver")
    await page.locator("#message").fill("Go")
    await page.wait_for_timeout(1_000)
    async with traced(browser, page) as trace:
        await page.locator("#message").press("Enter")
        await page.locator(".end").wait_for()
        await page.locator(".entry .type:text-is('tool_reply')").click()
        await page.locator(".reply .more").click()
        await page.wait_for_timeout(500)
    print(f"longest task with 1 MB of a tool: {max(tasks(trace)):.0f} ms")


async def opened(browser: Browser, serving: Serving) -> Page:
    """The page, in a window of its own."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    await page.goto(f"http://127.0.0.1:{serving.port}/#token={TOKEN}")
    await page.locator(".welcome h3").wait_for()
    return page


@asynccontextmanager
async def traced(browser: Browser, page: Page) -> AsyncGenerator[Trace, None]:
    """What the browser traced in the meantime, of this page's process."""
    trace: Trace = []
    await browser.start_tracing(page=page, categories=CATEGORIES)
    yield trace
    trace += json.loads(await browser.stop_tracing())["traceEvents"]


def smoothness(trace: Trace) -> tuple[float, int, float]:
    """Frames drawn a second, frames and seconds, from the first frame of the trace to the last."""
    frames = sorted(event["ts"] for event in trace if event["name"] == "DrawFrame")
    if len(frames) < 2:
        return 0.0, len(frames), 0.0
    seconds = (frames[-1] - frames[0]) / 1e6
    return (len(frames) - 1) / seconds, len(frames), seconds


def tasks(trace: Trace, *threads: str) -> list[float]:
    """The tasks of these threads, or of the page's main thread, in milliseconds of CPU."""
    chosen = {
        (event["pid"], event["tid"])
        for event in trace
        if event["name"] == "thread_name"
        and event["args"]["name"] in (threads or ("CrRendererMain",))
    }
    return [
        event.get("tdur", event.get("dur", 0)) / 1000
        for event in trace
        if event["name"] in ("RunTask", "ThreadControllerImpl::RunTask", "ThreadPool_RunTask")
        and (event["pid"], event["tid"]) in chosen
    ]


if __name__ == "__main__":
    asyncio.run(main())
