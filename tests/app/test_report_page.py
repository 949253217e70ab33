"""The page of a report in a browser: fits every width and paper, contrast of text, nothing is fetched,
readable without scripts.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import numpy as np
import pytest

from craftc import CRAFT, report
from craftc.craft.answers.stability import Stability
from craftc.datasets import load_heart
from tests.common import fixed_price

pytest.importorskip("jinja2")
pd = pytest.importorskip("pandas")
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="pages are opened by Playwright: pip install playwright"
)

WIDTHS = [390, 768, 1280]

#: Elements that reach beyond the right edge of the window, other than in parts that scroll; cut-off text in
#: them is cut on purpose.
OVERFLOW = """() => {
    const page = document.documentElement.scrollWidth;
    const wide = page > innerWidth ? ['page ' + page] : [];
    for (const e of document.querySelectorAll('body *')) {
        const box = e.getBoundingClientRect();
        const beyond = box.width && box.right > innerWidth + 1;
        if (beyond && !e.closest('.scroll, pre, .skip, .vh'))
            wide.push(e.tagName + ' ' + e.textContent.slice(0, 40));
    }
    return wide;
}"""

#: Text with its contrast to what lies behind it (WCAG 2.2), lowest first.
CONTRAST = """() => {
    const numbers = c => c.match(/[\\d.]+/g).map(Number);
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => [r, g, b].map(v => linear(v / 255))
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    const behind = e => {
        const layers = [];
        for (; e; e = e.parentElement) {
            const [r, g, b, a = 1] = numbers(getComputedStyle(e).backgroundColor);
            layers.push([r, g, b, a]);
            if (a === 1) break;
        }
        const over = (under, [r, g, b, a]) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
        return layers.reverse().reduce(over, [255, 255, 255]);
    };
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const e = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
        if (!text || e.closest('script, style, .vh, .skip') || !e.getClientRects().length) continue;
        const back = light(behind(e)), front = light(numbers(getComputedStyle(e).color));
        found.push([(Math.max(back, front) + .05) / (Math.min(back, front) + .05), text.slice(0, 40)]);
    }
    return found.sort((a, b) => a[0] - b[0]);
}"""


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        sandbox = [] if not hasattr(os, "geteuid") or os.geteuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=chromium, args=sandbox)
        yield browser
        browser.close()


def groups_frame(n_clusters, n_columns, rng):
    """Groups in columns of levels and numbers, some with long names."""
    truth = np.repeat(np.arange(n_clusters), 30)
    frame = {}
    for d in range(n_columns):
        if d % 2:
            frame[f"a_long_name_of_a_number_{d}"] = (
                rng.normal(size=len(truth)) + 4 * rng.normal(size=n_clusters)[truth]
            )
        else:
            level = np.where(
                rng.random(len(truth)) < 0.9,
                rng.integers(0, 8, n_clusters)[truth],
                rng.integers(0, 8, len(truth)),
            )
            frame[f"level {d}"] = np.array([f"alevelwithoutanyblank{v}" * 3 for v in range(8)], dtype=object)[
                level
            ]
    return pd.DataFrame(frame), truth


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of every state, by name."""
    folder, rng = tmp_path_factory.mktemp("pages"), np.random.default_rng(0)
    data = load_heart()
    model = CRAFT(random_state=0).fit(data.data)
    stability = Stability(np.full((5, model.n_clusters_), 0.7), np.full(5, 2), np.array([0.9]))
    report.write(
        model, data.data, folder / "two.html", target=data.target, stability=stability, title="heart"
    )
    frame, truth = groups_frame(8, 8, rng)
    frame.iloc[::9, 1] = np.nan
    eight = fixed_price(8, cluster_price=0.0, init=[truth]).fit(frame)
    report.write(eight, frame, folder / "eight.html", target=rng.normal(size=len(truth)) + truth)
    frame, truth = groups_frame(40, 40, rng)
    forty = fixed_price(40, cluster_price=0.0, init=[truth]).fit(frame)
    report.write(forty, frame, folder / "forty.html", target=[f"class {k}" for k in truth])
    evil = {
        "<script>document.title='evil'</script>" * 9: rng.choice(["<b onclick=x>", "c" * 500], 200),
        "x": rng.normal(size=200),
    }
    evil = pd.DataFrame(evil)
    report.write(
        CRAFT(random_state=0).fit(evil),
        evil,
        folder / "one.html",
        target="x" * 300 + pd.Series(rng.choice(["y", "n"], 200)),
    )
    return {path.stem: path.as_uri() for path in folder.iterdir()}


@pytest.fixture
def opened(browser, pages):
    """Open a page; nothing but the file may be fetched, and nothing may be said on the console."""
    contexts = []

    def open_page(name, width=1280, **options):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **options))
        page = contexts[-1].new_page()
        requests, said = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(pages[name])
        assert requests == [pages[name]]
        assert said == []
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["one", "two", "eight", "forty"])
def test_no_page_is_wider_than_the_window(opened, name, width):
    page = opened(name, width)
    assert page.evaluate(OVERFLOW) == []
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate(OVERFLOW) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["one", "two", "eight", "forty"])
def test_contrast_of_text(opened, name, scheme):
    page = opened(name, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    measured = page.evaluate(CONTRAST)
    assert len(measured) > 50
    assert [each for each in measured if each[0] < 4.5] == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "eight", "forty"])
def test_print(opened, name):
    page = opened(name, 695, color_scheme="dark")  # A4 less its margins
    closed = page.locator("details:not([open])").count()
    page.emulate_media(media="print")
    assert page.evaluate(OVERFLOW) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.get_by_text("Typical: rows that the cluster").first.is_visible()
    assert page.locator("details:not([open])").count() == closed
    assert page.pdf(prefer_css_page_size=True)[:4] == b"%PDF"


@pytest.mark.slow
def test_everything_can_be_read_without_scripts(opened):
    page = opened("two", java_script_enabled=False)
    for heading in (
        "Overview",
        "Merge tree",
        "Where the clusters lie",
        "Which features make which cluster",
        "How to tell the clusters apart by hand",
        "Each cluster",
        "How sure",
        "Reproduce",
    ):
        assert page.get_by_role("heading", name=heading, exact=True).is_visible()
    assert page.get_by_text("Unusual: rows that the cluster describes worst").first.is_visible()
    assert page.locator("[data-open]").first.is_hidden()
    closed = opened("eight", java_script_enabled=False)
    closed.locator("summary").first.click()
    assert closed.get_by_text("Unusual: rows that the cluster describes worst").first.is_visible()


@pytest.mark.slow
def test_sorting_and_opening(opened):
    page = opened("eight")
    first = page.locator("table.overview tbody tr").first
    assert first.locator(".badge").inner_text() == "1"
    page.get_by_role("button", name="No.").click()
    assert first.locator(".badge").inner_text() == "8"
    assert page.locator("th[aria-sort=descending]").count() == 1
    page.get_by_role("button", name="Open all rows").click()
    assert page.locator("article details:not([open])").count() == 0


@pytest.mark.slow
def test_a_filter_leaves_the_clusters_that_mention_a_text(opened):
    page = opened("eight")
    wanted = page.locator("#c3 h3").inner_text().split(",")[0]
    page.get_by_label("Only clusters that mention").fill(wanted.removeprefix("Cluster 3: ").upper())
    shown = page.locator("article:visible")
    assert 1 <= shown.count() < 8
    assert page.get_by_role("status").inner_text() == f"{shown.count()} of 8 clusters"
    for part in ("table.overview tbody tr", "#map .legend li", "#sure tbody tr"):
        assert page.locator(f"{part}:visible").count() == shown.count()
    page.get_by_label("Only clusters that mention").fill("no cluster mentions this")
    assert shown.count() == 0
    page.evaluate("location.hash = 'c5'")  # a link to a cluster that the filter has hidden
    page.locator("#c5").wait_for(state="visible")
    assert shown.count() == 8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "two", "eight"])
def test_landmarks_headings_and_heads_of_tables(opened, name):
    page = opened(name)
    outside = """[...document.body.children].filter(e => !e.matches('script, .skip') && e.innerText.trim())
        .flatMap(e => e.matches('.page') ? [...e.children] : [e])
        .filter(e => !e.matches('header, nav, main, footer')).length"""
    assert page.evaluate(outside) == 0
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(e => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert page.locator("th:not([scope])").count() == 0
    labels = page.evaluate(
        "[...document.querySelectorAll('section, [role=region]')].map(e => e.getAttribute('aria-label') ||"
        " document.getElementById(e.getAttribute('aria-labelledby')).textContent)"
    )
    assert len(labels) == len(set(labels))


@pytest.mark.slow
def test_links_and_labels(opened):
    page = opened("forty")
    identifiers = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    targets = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
    assert len(targets) > 100
    assert set(targets) <= {f"#{identifier}" for identifier in identifiers}
    assert len(identifiers) == len(set(identifiers))
    assert (
        page.evaluate("[...document.querySelectorAll('svg:not([aria-label]):not([aria-hidden])')].length")
        == 0
    )
    assert page.title() == "40 clusters of 1,200 rows"


@pytest.mark.slow
def test_wide_maps_scroll_with_a_fixed_first_column(opened):
    page = opened("forty", 768)
    region = page.get_by_role("region", name="Map of features and clusters")
    assert region.evaluate("e => e.scrollWidth > e.clientWidth + 200")
    head = region.locator("tbody th").first
    before = head.bounding_box()["x"]
    region.evaluate("e => e.scrollLeft = 300")
    assert abs(head.bounding_box()["x"] - before) < 5
