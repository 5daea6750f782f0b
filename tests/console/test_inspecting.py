"""What a developer inspects of a step: the request to the model, and the state."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from console_kit import Shop, open_shop
from playwright.async_api import Page, expect

from awaken.codec import to_json
from awaken.server.keys import add_key

pytestmark = pytest.mark.anyio


async def get(shop: Shop, path: str, **query: str) -> Any:
    answer = await shop.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_request_of_a_step_is_what_its_model_received(shop: Shop) -> None:
    """07/CO-12: with a delegate, edited arguments and a resumed run; ids and all."""
    run = await shop.waiting_run("order-7")
    await shop.edit_elsewhere("order-7", {"order": 7, "euros": 20})
    await shop.runtime.wait(run)
    received = [to_json(request) for request in shop.received["desk-1"]]
    assert len(received) == 3
    for number, request in enumerate(received, 1):
        told = await get(shop, f"/v1/runs/{run}/steps/{number}/request")
        assert told["request"] == request
        assert len(told["sources"]) == len(request["messages"])
    assert "paid 20 euros back" in str(received[2]["messages"])
    clerk = (await shop.runtime.list_runs()).items
    child = next(one.run_id for one in clerk if one.agent_id == "clerk")
    told = await get(shop, f"/v1/runs/{child}/steps/2/request")
    assert told["request"] == to_json(shop.received["clerk-1"][1])


async def test_the_state_before_a_step_is_the_state_after_the_one_before(shop: Shop) -> None:
    """07/CO-14; that the difference makes the one the other is a law of `json.mjs`."""
    run = await shop.waiting_run("order-7")
    await shop.answer_elsewhere("order-7")
    await shop.runtime.wait(run)
    states = [await get(shop, f"/v1/runs/{run}/steps/{number}/state") for number in (1, 2, 3)]
    for earlier, later in pairwise(states):
        assert later["before"] == earlier["after"]
    assert states[1]["before"] != states[1]["after"]
    assert states[2]["after"] == (await get(shop, "/v1/threads/order-7/state"))["state"]


async def test_requests_and_state_are_for_developers(tmp_path: Path) -> None:
    """07/CO-47."""
    keys = tmp_path / "keys.toml"
    add_key(keys, name="boss", roles=("admin",))
    async with open_shop(tmp_path, keys=keys) as shop:
        run = await shop.waiting_run("order-7")
        found = {}
        for role in ("read", "inspect"):
            head = {"authorization": f"Bearer {add_key(keys, name=role, roles=(role,))}"}
            for part in ("request", "state"):
                path = f"/v1/runs/{run}/steps/1/{part}"
                found[role, part] = (await shop.client.get(path, headers=head)).status_code
        assert set(found.values()) == {403, 200}
        assert found["read", "request"] == found["read", "state"] == 403


async def test_the_tabs_show_the_request_with_its_news_and_the_changed_state(
    page: Page, shop: Shop
) -> None:
    """07/CO-12, 07/CO-14, in the page."""
    run = await shop.waiting_run("order-7")
    await page.goto(shop.link(f"runs/{run}?tab=request"))
    panel = page.get_by_role("tabpanel")
    await expect(panel).to_contain_text("4 messages")
    await expect(panel).to_contain_text("3 of 4 messages since the step before")
    await page.get_by_role("button", name="As sent to the provider").click()
    await expect(panel).to_contain_text("cannot show")
    await page.locator("body").press("4")
    await expect(panel).to_contain_text("Changed by step 2")
    await expect(panel).to_contain_text("suspended")


async def test_a_request_that_was_not_kept_is_said_not_to_be(page: Page, tmp_path: Path) -> None:
    """07/CO-13."""
    (tmp_path / "forgetful").mkdir()
    async with open_shop(tmp_path / "forgetful", keep_requests=False) as forgetful:
        run = await forgetful.waiting_run("order-7")
        await page.goto(forgetful.link(f"runs/{run}?tab=request"))
        panel = page.get_by_role("tabpanel")
        await expect(panel).to_contain_text("not kept")
        await expect(panel).to_contain_text("desk-1")
        await expect(panel).to_contain_text("The mug came broken")
