"""50,000 entries and a megabyte in one of them: what is in the page stays small.

How smoothly it scrolls is measured by `python -m bench.page`, on a machine that does nothing else.
"""

from __future__ import annotations

import pytest
from playwright.async_api import Browser, expect

from tests.browser.helpers_acts import crowd, giver
from tests.browser.helpers_page import Desk, staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATIENCE = 50_000  # ms, on a machine that has other things to do


async def nodes(desk: Desk, selector: str = "*") -> int:
    return await desk.page.locator(selector).count()


async def test_fifty_thousand_entries_are_listed_with_the_rows_in_sight_only(
    chromium: Browser,
) -> None:
    async with staged(chromium, crowd(57, width=128)) as stage:
        client = await stage.serving.run("Go")
        client.cut()
        desk = await stage.open()
        await desk.click("Sessions")
        await desk.page.locator("button.session").click()
        await expect(desk.page.locator(".found")).to_have_text("51,251", timeout=PATIENCE)
        await expect(desk.ends).to_have_count(1, timeout=PATIENCE)

        assert await nodes(desk, ".entry") < 60
        assert await nodes(desk) < 7_000
        rows = desk.entries.get_by_role("option")
        await desk.entries.focus()
        await desk.page.keyboard.press("Home")
        await expect(rows.first).to_have_attribute("data-seq", "1")
        await desk.entries.evaluate("list => (list.scrollTop = list.scrollHeight / 2)")
        middle = desk.page.locator(".entry[aria-posinset='25630']")
        await expect(middle).to_be_in_viewport()
        assert "25630" in await middle.inner_text()
        await desk.page.locator("#filter").fill("type:tool_reply c7296")
        await expect(rows).to_have_count(1)
        await rows.click()
        await expect(desk.inspector).to_contain_text("7296 counted")
        assert await nodes(desk) < 7_000


SCROLL = """async (list) => {
  let changes = 0;
  const seen = new MutationObserver(() => changes++);
  seen.observe(list, { childList: true, subtree: true, attributes: true });
  list.scrollTop = 0;
  for (let i = 0; i < 120; i++) {
    list.scrollTop += 13;
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
  seen.disconnect();
  return changes;
}"""


async def test_most_pictures_of_a_scroll_change_nothing_in_the_page(chromium: Browser) -> None:
    async with staged(chromium, crowd(10, width=8)) as stage:
        desk = await stage.open()
        await desk.say("Go")
        await expect(desk.ends).to_have_count(1)
        await expect(desk.page.locator(".verdict-badge")).to_be_visible()

        assert 0 < await desk.entries.evaluate(SCROLL) < 12


async def test_a_megabyte_of_a_tool_is_shown_in_parts(chromium: Browser) -> None:
    megabyte = "fog until noon, " * 65_536
    async with staged(chromium, giver(megabyte)) as stage:
        desk = await stage.open()
        await desk.say("Go")
        await expect(desk.ends).to_have_count(1)
        await desk.page.locator(".entry .type:text-is('tool_reply')").click()
        await expect(desk.inspector).to_contain_text("fog until noon")

        letters = "root => root.textContent.length"
        assert await desk.page.locator("main").evaluate(letters) < 10_000
        more = desk.page.locator(".reply .more")
        await expect(more).to_have_text("show 64 KiB more of 1023 KiB")
        await more.click()
        await expect(more).to_have_text("show 64 KiB more of 959 KiB")
        assert 65_000 < await desk.page.locator("main").evaluate(letters) < 80_000
