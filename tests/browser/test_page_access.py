"""axe-core finds nothing serious, in each main state, light and dark, wide and narrow."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, expect

from agent_lab import Agent
from agent_lab.testing import ScriptedModel
from tests.browser.helpers_acts import Acted, asking, crowd
from tests.browser.helpers_page import Desk, Guide, Stage, staged

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SERIOUS = {"serious", "critical"}


async def faults(desk: Desk) -> list[str]:
    """What axe-core finds, with where."""
    await desk.page.evaluate("Promise.all(document.getAnimations().map((a) => a.finish?.()))")
    found: dict[str, Any] = (await Axe().run(desk.page)).response
    return [
        f"{fault['id']}: {fault['help']}: {[node['html'][:160] for node in fault['nodes'][:3]]}"
        for fault in found["violations"]
        if fault["impact"] in SERIOUS
    ]


async def nothing_serious(desk: Desk) -> None:
    """In the light and in the dark."""
    for scheme in ("light", "dark"):
        await desk.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert await faults(desk) == [], scheme


async def held(stage: Stage, guide: Guide) -> Desk:
    desk = await stage.open()
    await desk.say("Look at Oslo and Rome")
    await guide.inside("Oslo")
    guide.open("Rome")
    await desk.say("And Vienna?")
    await expect(desk.held).to_have_count(1)
    await desk.page.locator(".entry .type.held").first.click()
    return desk


async def test_nothing_serious_on_a_first_visit_and_in_its_windows(chromium: Browser) -> None:
    async with staged(chromium, Guide().agent) as stage:
        desk = await stage.open()
        await expect(desk.page.locator(".welcome")).to_contain_text("guide")
        await nothing_serious(desk)
        for key in "?slvo":
            await desk.page.keyboard.press(key)
            await expect(desk.page.locator("dialog[open]")).to_be_visible()
            await nothing_serious(desk)
            await desk.page.keyboard.press("Escape")


async def test_nothing_serious_while_a_message_is_held_wide_and_narrow(chromium: Browser) -> None:
    guide = Guide()
    async with staged(chromium, guide.agent) as stage:
        desk = await held(stage, guide)
        await nothing_serious(desk)
        await desk.page.set_viewport_size({"width": 390, "height": 844})
        for name in ("Conversation", "Timeline", "Entries", "Inspector"):
            await desk.click(name)
            await nothing_serious(desk)


async def test_nothing_serious_when_turns_are_done_and_have_failed(chromium: Browser) -> None:
    guide = Guide()
    async with staged(chromium, guide.agent) as stage:
        guide.open("Oslo", "nowhere")
        desk = await stage.open()
        await desk.say("Look at Oslo and nowhere")
        await expect(desk.ends).to_have_count(1)
        await desk.say("Fail")
        await expect(desk.page.locator(".end .box")).to_be_visible()
        await desk.page.locator(".entry .type.bad").last.click()
        await nothing_serious(desk)
        await desk.page.locator("#filter").fill("type:model_request turn:2")
        await desk.entries.get_by_role("option").last.click()
        await nothing_serious(desk)


async def test_nothing_serious_when_the_line_is_cut(chromium: Browser) -> None:
    guide = Guide()
    async with staged(chromium, guide.agent) as stage:
        desk = await held(stage, guide)
        stage.line.cut()
        await expect(desk.why).to_contain_text("Disconnected")
        await nothing_serious(desk)


async def test_nothing_serious_where_a_tool_asks_and_where_entries_are_gone(
    chromium: Browser,
) -> None:
    async with staged(chromium, crowd(40, keep=200)) as stage:
        asked = await stage.open(server=Acted(asking(), agent="crowd"))
        await asked.say("Book it")
        await expect(asked.page.locator(".ask[data-armed]")).to_be_visible()
        await nothing_serious(asked)

        client = await stage.serving.run("Go")
        await client.end()
        desk = await stage.open()
        await desk.click("Sessions")
        await desk.page.locator("button.session").click()
        await expect(desk.page.locator(".end[data-end=gap]")).to_have_count(1)
        await nothing_serious(desk)


async def test_nothing_serious_without_a_token(chromium: Browser) -> None:
    async with staged(chromium, Agent("a", model=ScriptedModel(["So."]))) as stage:
        desk = await stage.open("/")
        await expect(desk.page.get_by_role("alert")).to_contain_text("key")
        await nothing_serious(desk)
