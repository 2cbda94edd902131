"""The live view in a real browser. Skipped where there is none."""

import pytest

from fluoroscope.report.browser import find_browser
from tests.report.test_browser import LEAST_CONTRAST
from tests.web.conftest import make_ledger
from tests.web.serving import Running, serving

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here")


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as made:
        yield made


@pytest.fixture
def opened(chromium, server):
    """The first page on a phone; no page may complain, or ask anybody else for anything."""
    complaints = []
    page = chromium.new_page(viewport={"width": 360, "height": 740})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("data:", server.base)) else complaints.append(r.url))
    page.goto(server.url)
    yield page
    page.close()
    assert complaints == []


def test_the_token_leaves_the_address_and_pages_can_be_read(opened, server):
    assert opened.url == f"{server.base}/"
    addresses = ["/", *opened.locator(".run a").evaluate_all("(all) => all.map((a) => a.getAttribute('href'))")]
    chosen = opened.locator("select").first.locator("option").evaluate_all("(all) => all.map((o) => o.value)")
    for address in (*addresses, f"/compare?before={chosen[0]}&after={chosen[1]}"):
        opened.goto(server.base + address)
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360, address
        for scheme in ("light", "dark"):
            opened.emulate_media(color_scheme=scheme)
            ratio, where = opened.evaluate(LEAST_CONTRAST)
            assert ratio >= 4.5, (address, scheme, where)


def test_by_keyboard_to_a_report_in_its_own_sandbox(opened):
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    opened.keyboard.press("Enter")
    opened.get_by_role("link", name="before", exact=True).focus()
    opened.keyboard.press("Enter")
    opened.wait_for_url("**/runs/*")
    opened.get_by_role("link", name="The report", exact=True).focus()
    opened.keyboard.press("Enter")
    opened.wait_for_url("**/report.html")
    assert opened.evaluate("self.origin") == "null"
    assert opened.locator(".viewer output").first.text_content() == "Reconstruction", "its script runs"


def test_what_changes_is_shown_and_the_focus_stays(chromium, tmp_path):
    run = Running(tmp_path / "hour")
    with serving(tmp_path) as server:
        page = chromium.new_page()
        page.goto(server.url)
        link = page.get_by_role("link", name="hour", exact=True)
        link.focus()
        run.tell(2)
        page.get_by_text("50 % ·").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "hour"
        make_ledger(tmp_path / "ledger.jsonl")
        page.get_by_role("link", name="ledger.jsonl").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "hour"
        link.press("Enter")
        page.wait_for_url("**/runs/*")
        run.kill()
        page.locator("[data-state=stopped]").wait_for()
        assert page.locator("#news").text_content() == "hour: stopped"
        server.process.kill()
        page.get_by_text("the server does not answer").wait_for()
        page.close()
