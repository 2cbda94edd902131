"""The page in a real browser. Skipped where there is none."""

import pytest

from fluoroscope.report.audit_report import write_report
from fluoroscope.report.browser import find_browser

sync_api = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.skipif(find_browser() is None, reason="no Chromium here")

LEAST_CONTRAST = """() => {
  const light = (rgb) => rgb.map((c) => c / 255).map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parsed(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  for (const element of document.querySelectorAll("main *:not(svg *), header *, footer *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [light(parsed(getComputedStyle(element).color).slice(0, 3)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least[0]) least = [ratio, element.outerHTML.slice(0, 200)];
  }
  return least;
}"""


@pytest.fixture(scope="module")
def address(audit, tmp_path_factory):
    return write_report(audit, out=tmp_path_factory.mktemp("browser") / "report.html").as_uri()


@pytest.fixture(params=["officer", "engineer"])
def reader(request):
    return request.param


@pytest.fixture
def opened(chromium, address, reader):
    """One reader's page, which must not complain or ask for anything else."""
    complaints = []
    page = chromium.new_page(viewport={"width": 360, "height": 740})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith("data:") else complaints.append(request.url))
    page.goto(f"{address}#{reader}")
    yield page
    page.close()
    assert complaints == [address]


def test_images_are_whole_and_a_phone_need_not_scroll_sideways(opened):
    widths = opened.evaluate("[...document.images].map((image) => image.complete ? image.naturalWidth : 0)")
    assert len(widths) > 0
    assert min(widths) > 0
    assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    names = opened.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    twice = {name for name in names if names.count(name) > 1}
    assert not [name for name in twice if not name[1:].isalnum()]


@pytest.mark.parametrize("reader", ["engineer"], indirect=True)
def test_the_slider_by_keyboard_and_by_mouse(opened):
    slider, stage = opened.locator(".viewer input").first, opened.locator(".viewer output").first
    original = opened.locator(".viewer").first.locator(".stage").nth(2)
    assert stage.text_content() == "Reconstruction"
    slider.focus()
    slider.press("Home")
    assert stage.text_content() == "Prior"
    slider.press("ArrowRight")
    assert stage.text_content() == "Between prior and reconstruction"
    assert slider.get_attribute("aria-valuetext") == "Between prior and reconstruction"
    slider.press("End")
    assert stage.text_content() == "Original"
    assert original.evaluate("(element) => getComputedStyle(element).opacity") == "1"
    slider.click(position={"x": 2, "y": 12})
    assert stage.text_content() == "Prior"
    assert original.evaluate("(element) => getComputedStyle(element).opacity") == "0"
    assert slider.evaluate("(element) => element.labels.length") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, scheme):
    opened.emulate_media(color_scheme=scheme)
    ratio, where = opened.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, where


def test_print_shows_all_stages_and_what_is_folded(opened):
    opened.emulate_media(media="print", color_scheme="dark")
    places = (
        opened.locator(".viewer")
        .first.locator(".stage")
        .evaluate_all("(all) => all.map((each) => [each.getBoundingClientRect().x, getComputedStyle(each).opacity])")
    )
    assert len({x for x, _ in places}) == 3
    assert {opacity for _, opacity in places} == {"1"}
    assert opened.locator("details pre").first.evaluate("(element) => element.getBoundingClientRect().height") > 20


def test_without_scripts_both_pages_are_whole(chromium, address):
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address)
        assert page.locator("#officer").is_visible()
        assert not page.locator("#engineer").is_visible()
        page.get_by_role("link", name="For the engineer").click()
        assert page.locator("#engineer").is_visible()
        assert not page.locator("#officer").is_visible()
        assert page.locator(".stage span").first.is_visible()
        assert not page.locator(".control").first.is_visible()
