"""The page as a reader sees it: an installed Chromium opens it from disk, without a network."""

import os
import shutil

import pytest

from reslab.report import write_report

from .synthetic import study

pytestmark = pytest.mark.browser

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def no_browser(reason):
    if os.environ.get("RESLAB_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        no_browser(f"none of {', '.join(names)} is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        no_browser("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return write_report(study(seeds=3), tmp_path_factory.mktemp("report")).page.as_uri()


@pytest.fixture(scope="module")
def page(browser, address):
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.requests, page.complaints = [], []
    page.on("request", lambda request: page.requests.append(request.url))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: (
            message.type in ("error", "warning") and page.complaints.append(message.text)
        ),
    )
    page.goto(address)
    yield page
    # Last of all, so that it covers what the other tests did with the page.
    assert page.complaints == []
    assert all(url.startswith(("file://", "data:", "blob:")) for url in page.requests)
    context.close()


def plot(page, key):
    return page.locator(f'.plot[data-panel="{key}"]')


def lines(page, key):
    """Line traces on the screen: bands have no width."""
    return (
        plot(page, key)
        .locator(".scatterlayer .trace .js-line")
        .evaluate_all(
            "paths => paths.filter(p => parseFloat(getComputedStyle(p).strokeWidth) > 0).length"
        )
    )


def look(page):
    return page.evaluate(
        """() => ({
            ground: getComputedStyle(document.body).backgroundColor,
            font: document.querySelector(".plot").layout.font.color,
            tick: getComputedStyle(document.querySelector(".plot .xtick text")).fill,
            line: document.querySelector(".plot").data.at(-1).line.color,
        })"""
    )


def test_nothing_is_loaded_and_nothing_complains(page, address):
    assert page.requests[0] == address
    assert all(url.startswith(("file://", "data:", "blob:")) for url in page.requests)
    assert page.complaints == []


def test_the_verdict_is_on_the_first_screen(page):
    verdict = page.locator("h1")
    assert "the deeper plain net trains worse" in verdict.inner_text()
    box = verdict.bounding_box()
    assert verdict.is_visible()
    assert box["y"] + box["height"] < 900


def test_the_curves_are_really_drawn(page):
    for kind in ("plain", "resnet"):
        names = plot(page, f"errors-{kind}").evaluate(
            "p => p.data.map(t => t.name).filter(Boolean)"
        )
        assert names == [f"{kind}-{d} {w}" for d in (20, 56) for w in ("training", "test")]
        assert lines(page, f"errors-{kind}") == 4
        assert lines(page, f"gradients-{kind}") == 4
    assert plot(page, "deepening-0").locator(".barlayer .point").count() == 3


def test_a_click_on_the_legend_hides_a_curve_and_its_band(page):
    key = page.locator('.key[data-group="plain-56 test"]')
    drawn = plot(page, "errors-plain").locator(".scatterlayer .trace")
    before = drawn.count()
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    assert lines(page, "errors-plain") == 3
    assert drawn.count() == before - 2
    key.click()
    assert lines(page, "errors-plain") == 4


def test_the_legend_works_from_the_keyboard(page):
    page.locator('.key[data-group="resnet-20 training"]').focus()
    page.keyboard.press("Enter")
    assert lines(page, "errors-resnet") == 3
    page.keyboard.press("Enter")
    assert lines(page, "errors-resnet") == 4


def test_every_seed_can_be_shown(page):
    chart = page.locator('[data-chart="errors"]')
    chart.get_by_role("button", name="Every seed").click()
    assert lines(page, "errors-plain") == 12
    chart.get_by_role("button", name="Mean and range").click()
    assert lines(page, "errors-plain") == 4


def test_hovering_shows_the_measured_values(page):
    drawn = plot(page, "errors-plain")
    drawn.scroll_into_view_if_needed()
    box = drawn.locator(".nsewdrag").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = drawn.locator(".hoverlayer .legendtext, .hoverlayer text")
    label.first.wait_for(timeout=3000)
    shown = " ".join(label.all_text_contents())
    assert "iteration 80" in shown
    assert "plain-56 test" in shown
    page.mouse.move(0, 0)


def test_dark_and_light_differ_and_switch_while_open(page):
    light = look(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(
        "before => document.querySelector('.plot').layout.font.color != before", arg=light["font"]
    )
    dark = look(page)
    assert all(light[part] != dark[part] for part in light)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(
        "now => document.querySelector('.plot').layout.font.color != now", arg=dark["font"]
    )
    assert look(page) == light


def test_paper_is_light_even_from_a_dark_screen(page):
    light = look(page)["font"]
    page.emulate_media(color_scheme="dark", media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert look(page)["font"] == light
    page.emulate_media(color_scheme="light", media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")


@pytest.mark.parametrize("width", [1440, 768, 390])
def test_the_page_never_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 844})
    # Figures follow a change of width a moment later.
    page.wait_for_function(
        "width => innerWidth === width && document.documentElement.scrollWidth <= width",
        arg=width,
        timeout=5000,
    )
    assert plot(page, "errors-plain").locator(".main-svg").first.bounding_box()["width"] <= width
    page.set_viewport_size({"width": 1440, "height": 900})


def test_the_command_can_be_copied(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.locator(".said", has_text="Copied").wait_for(timeout=2000)
    assert page.evaluate("navigator.clipboard.readText()") == "reslab study degradation --seeds 3"
