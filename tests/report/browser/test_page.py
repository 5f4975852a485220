"""The report as a reader meets it: a file opened from disk, on a desk and on a phone, light, dark and on paper."""

from pathlib import Path

import pytest

from dgdmn.report import write_report

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "has_touch": True}
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def address(runs, tmp_path_factory):
    """The report of all runs as a file."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report([runs], path)
    return path.as_uri()


def panels(page):
    return page.evaluate(
        "[...document.querySelectorAll('[data-panel]')].map((one) => one.checkVisibility())"
    )


def contrast(page):
    answer = page.evaluate(CONTRAST, 4.5)
    assert answer["checked"] > 100
    return answer["found"]


def test_it_opens_without_a_complaint_and_asks_for_nothing(opened, address):
    seen = opened(address)
    seen.page.wait_for_timeout(300)
    assert seen.complaints == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [address]
    assert seen.page.evaluate("document.styleSheets.length") == 1, (
        "its own style is allowed by its policy"
    )


def test_names_are_shown_as_text_and_never_run(opened, address):
    seen = opened(address)
    assert seen.page.evaluate("document.scripts.length") == 1
    assert seen.page.evaluate("document.querySelectorAll('main script, main u').length") == 0
    assert SCRIPT in seen.page.evaluate("document.body.textContent")
    seen.page.wait_for_timeout(200)
    assert seen.dialogs == []


def test_tabs_by_mouse_and_by_keyboard(opened, address):
    page = opened(address).page
    tabs = page.get_by_role("tab")
    assert tabs.count() == 2
    assert panels(page) == [True, False]
    tabs.nth(1).click()
    assert panels(page) == [False, True]
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    assert panels(page) == [True, False]
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    page.keyboard.press("ArrowLeft")
    assert panels(page) == [False, True]


def test_the_legend_toggles_lines_by_mouse_and_by_keyboard(opened, address):
    page = opened(address).page
    button = page.locator("button[aria-pressed]:visible").first
    key = button.get_attribute("data-key")
    lines = (
        "(key) => [...document.querySelectorAll('[data-panel]:not(.off) [data-key]:not(button)')]"
    )
    lines += ".filter((one) => one.dataset.key === key).map((one) => getComputedStyle(one).display !== 'none')"
    shown = page.evaluate(lines, key)
    assert shown
    assert all(shown)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert not any(page.evaluate(lines, key))
    button.focus()
    page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "true"
    assert all(page.evaluate(lines, key))


def test_values_are_read_by_pointer_and_by_arrow_keys(opened, address):
    page = opened(address).page
    chart, readout = page.locator("svg.chart[data-x]:visible").first, page.locator("#readout")
    chart.hover()
    assert readout.is_visible()
    pointed = readout.inner_text()
    assert any(character.isdigit() for character in pointed)
    page.mouse.move(1, 1)
    assert not readout.is_visible()
    chart.focus()
    page.keyboard.press("ArrowRight")
    first = readout.inner_text()
    page.keyboard.press("ArrowRight")
    second = readout.inner_text()
    assert first.strip()
    assert second != first
    page.keyboard.press("Escape")
    assert not readout.is_visible()


def test_a_tap_on_a_phone_shows_values(opened, address):
    page = opened(address, **PHONE).page
    chart, readout = page.locator("svg.chart[data-x]:visible").first, page.locator("#readout")
    chart.tap()
    assert readout.is_visible()
    assert any(character.isdigit() for character in readout.inner_text())
    page.locator("h1").tap()
    assert not readout.is_visible()


def test_a_wide_table_fits_a_desk(opened, address):
    page = opened(address, viewport={"width": 1280, "height": 900}).page
    region = page.get_by_role("region", name="Time and memory").first
    assert region.evaluate("(one) => one.scrollWidth <= one.clientWidth")


def test_the_matrix_has_its_values_and_can_be_reached_by_keyboard(opened, address):
    page = opened(address).page
    table = page.locator("table.heat:visible").first
    assert table.locator("tbody tr").count() == 10
    assert table.locator("tbody td").first.inner_text().strip()
    reachable = "(table) => Boolean(table.closest('[tabindex=\"0\"]') || table.querySelector('[tabindex=\"0\"]'))"
    assert table.evaluate(reachable)


@pytest.mark.parametrize("tab", [0, 1])
def test_a_phone_does_not_scroll_sideways(opened, address, tab):
    page = opened(address, **PHONE).page
    page.get_by_role("tab").nth(tab).click()
    widths = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    wide = page.evaluate(
        "[...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && !one.closest('.scroll')"
        " && one.getBoundingClientRect().right > 361).map((one) => one.outerHTML.slice(0, 120))"
    )
    assert widths[0] <= widths[1], wide


@pytest.mark.parametrize("tab", [0, 1])
def test_charts_fit_a_phone_whole(opened, address, tab):
    page = opened(address, **PHONE).page
    page.get_by_role("tab").nth(tab).click()
    cut = page.evaluate(
        "[...document.querySelectorAll('svg.chart, svg.chart text, .bars *')]"
        ".filter((one) => one.checkVisibility() && !one.closest('.swatch'))"
        ".filter((one) => one.getBoundingClientRect().right > 360)"
        ".map((one) => one.textContent.slice(0, 60))"
    )
    assert cut == []
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg.chart[data-x] text')].filter((one) => one.checkVisibility())"
        ".map((one) => one.getBoundingClientRect()).map((box) => Math.min(box.width, box.height))"
    )
    assert min(size for size in sizes if size) > 5, "digits can be read"


def test_terms_are_explained_by_mouse_and_by_keyboard(opened, address):
    page = opened(address).page
    term, tip = page.locator("abbr:visible").first, page.locator("#readout")
    assert term.inner_text() == "ACC"
    term.hover()
    assert tip.inner_text().startswith("Accuracy at the end")
    page.mouse.move(1, 1)
    assert not tip.is_visible()
    term.focus()
    assert tip.inner_text().startswith("Accuracy at the end")
    page.keyboard.press("Escape")
    assert not tip.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(opened, address, scheme):
    page = opened(address, color_scheme=scheme).page
    page.locator("button[aria-pressed]:visible").first.click()
    assert contrast(page) == []
    page.get_by_role("tab").nth(1).click()
    page.locator("svg.chart[data-x]:visible").first.hover()
    assert contrast(page) == []


def test_the_check_of_contrast_finds_what_is_planted(opened, address):
    page = opened(address).page
    page.evaluate(
        "document.querySelector('h1').style.cssText = 'color: rgb(119, 119, 119); background: rgb(255, 255, 255)'"
    )
    page.evaluate("document.querySelector('svg text').style.fill = 'rgb(250, 250, 250)'")
    page.evaluate("document.querySelector('section').style.opacity = '.4'")
    found = contrast(page)
    assert any(one.startswith("4.48 <H1") for one in found), "#777 on white has 4.48 : 1"
    assert any("<text" in one for one in found)
    assert any("<P" in one or "<TD" in one for one in found)


def test_dark_is_dark(opened, address):
    dark = opened(address, color_scheme="dark").page.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    light = opened(address, color_scheme="light").page.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    assert max(map(int, dark[4:-1].split(","))) < 64
    assert min(map(int, light[4:-1].split(","))) > 192


def test_paper_shows_every_section_and_no_dark(opened, address):
    page = opened(address, color_scheme="dark").page
    page.emulate_media(media="print")
    assert panels(page) == [True, True]
    hidden = "[...document.querySelectorAll('main section, main h3')].filter((one) => !one.checkVisibility()).length"
    assert page.evaluate(hidden) == 0
    assert not page.get_by_role("tablist").is_visible()
    assert contrast(page) == []
    assert len(page.pdf()) > 10_000


def test_without_scripts_all_is_still_there(opened, address):
    page = opened(address, java_script_enabled=False).page
    assert page.locator("table.heat").first.is_visible()
    assert page.locator("[data-panel]").nth(1).is_visible()
