"""Names, links, pictures and tables of the documentation exist, and its examples run.

Sphinx is not needed.
"""

from __future__ import annotations

import importlib
import re
import runpy

import numpy as np
import pytest

import craftc
from tests.common import ROOT

DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "decisions").glob("*.md"))]
GALLERY = sorted(EXAMPLES.glob("plot_*.py"))
MODULES = ("datasets", "distributed", "embed", "metrics", "plot", "report", "table")


def text_of(page):
    return page.read_text(encoding="utf-8")


def prose_of(page):
    """A page without its code; directives, as of figures, are not code."""
    return re.sub(
        r"^(`{3,})([^\n]*)\n(.*?)^\1\s*$",
        lambda fence: fence[3] if fence[2].startswith("{") else "",
        text_of(page),
        flags=re.DOTALL | re.MULTILINE,
    )


def anchors_of(page):
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.fixture
def performance(monkeypatch):
    """The module that generates the performance page."""
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("_performance")


def test_growth_page_draws_the_tables_with_slopes(performance, tmp_path):
    pytest.importorskip("matplotlib", reason="the page's plots are drawn with matplotlib")
    growth = importlib.import_module("_growth")
    text = """Measured once.

### Seconds against the number of rows

| fit | 1,000 | 10,000 | slope |
| --- | --- | --- | --- |
| `CRAFT()` | 0.1 | 1.2 | 1.08 |
| `DPMeans()` | 0.01 | - | - |

### Bytes per row

| fit | 1,000 rows |
| --- | --- |
| `CRAFT()` | 12 |
"""
    page = growth.page("# Growth\n\n" + text, tmp_path)
    table = performance.sections_of("# Growth\n\n" + text)[1].parts[0]
    assert growth.curves(table) == [
        ("CRAFT()", [(1000, 0.1), (10000, 1.2)], "1.08"),
        ("DPMeans()", [(1000, 0.01)], "-"),
    ]
    assert (
        re.findall(r"/generated/growth/(\S+)", page)
        == ["growth-rows.svg"]
        == [path.name for path in tmp_path.iterdir()]
    )
    assert all(line in page for line in text.splitlines())


def test_the_picture_of_the_architecture_is_that_of_its_script(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    script = importlib.import_module("_architecture")
    assert script.PICTURE.read_text(encoding="utf-8") == script.picture(), "run docs/_architecture.py"
    named = re.findall(r"craftc(?:\.\w+)+", script.picture())
    assert named
    assert [name for name in named if not exists(name)] == []


def test_every_public_name_is_in_the_reference():
    reference = text_of(DOCS / "api.rst")
    listed = set(re.findall(r"^   ([\w.]+)$", reference, flags=re.MULTILINE))
    wanted = {name for name in craftc.__all__ if name not in (*MODULES, "cli")} | {"cli.main"}
    for module in MODULES:
        wanted |= {f"{module}.{name}" for name in getattr(craftc, module).__all__}
    for package in ("covariates", "craft", "spectral"):
        wanted |= {f"{package}.{name}" for name in importlib.import_module(f"craftc.{package}").__all__}
    at_the_top = {
        f"{package}.{name}"
        for package in ("table", "covariates", "craft", "spectral")
        for name in craftc.__all__
    }
    assert listed == wanted - at_the_top
    for module in ("datasets", "metrics", "plot", "report", "table", "cli"):
        assert f".. automodule:: craftc.{module}\n" in reference


@pytest.mark.slow_except(1)
@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.stem)
def test_examples_run(example, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the examples draw with matplotlib")
    pytest.importorskip("pandas", reason="the examples read frames")
    pytest.importorskip("networkx", reason="an example draws a graph")
    pyplot.close("all")
    pyplot.switch_backend("Agg")
    pyplot.close("all")  # of other tests
    shown = []
    monkeypatch.setattr(
        pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())) or pyplot.close("all")
    )
    try:
        runpy.run_path(str(example), run_name="__main__")
    finally:
        pyplot.close("all")
    assert shown == [1] * len(shown)
    assert len(shown) == len(re.findall(r"^plt\.show\(\)$", text_of(example), flags=re.MULTILINE)) > 0


def test_readme_is_a_landing_page_whose_code_runs(capsys):
    pytest.importorskip("pandas", reason="the code prints a frame")
    readme = text_of(ROOT / "README.md")
    assert readme.count("\n") <= 90
    [picture] = re.findall(r"!\[.+\]\((.+)\)", readme)
    assert (ROOT / picture).stat().st_size < 80_000
    [code] = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    names = {}
    exec(code, names)
    assert names["model"].n_clusters_ == 2
    assert "max_hr" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    found = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    for link in found:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {link}"


def exists(name):
    """Whether a dotted name is a module of craftc, its attribute, or a declaration file of Cython."""
    parts = name.split(".")
    if ROOT.joinpath(*parts).with_suffix(".pxd").exists():
        return True
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_modules_and_files_that_pages_name_exist(page):
    """Names in single backticks: `craftc/table`, `craftc.report.write(...)`."""
    if not page.exists():
        pytest.skip("not here (an unpacked sdist)")
    named = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose_of(page))
    paths = [name for name in named if re.match(r"(craftc|src|tests|benches|docs|examples)/[a-z_./]+$", name)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    dotted = [match[0] for name in named if (match := re.match(r"craftc(\.[A-Za-z_]\w*)+", name))]
    foreign = ("craftc.h", "craftc._C_API.v1")  # a header, a capsule
    assert [name for name in dotted if name not in foreign and not exists(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_and_examples_are_made_by_the_gallery(page):
    names = {example.stem: text_of(example).count("\nplt.show()\n") for example in GALLERY}
    for name, number in re.findall(r"sphx_glr_(plot_\w+?)_(\d{3})(?:_2_00x)?\.png", text_of(page)):
        assert 1 <= int(number) <= names.get(name, 0), f"{page.name} shows picture {number} of {name}"
    for name in re.findall(r"</generated/gallery/(\w+)>", text_of(page)):
        assert name in names, f"{page.name} names the example {name}"


def test_every_example_is_linked_from_a_page_and_names_its_page():
    everything = "".join(map(text_of, PAGES))
    pages = {page.stem for page in DOCS.glob("*.md")}
    for example in GALLERY:
        assert f"</generated/gallery/{example.stem}>" in everything
        named = re.findall(r":doc:`/([\w-]+)`", text_of(example))
        assert named
        assert set(named) <= pages


def test_terms_are_in_the_glossary():
    glossary = {
        term.lower()
        for term in re.findall(r"^(\S.*)\n  \S", text_of(DOCS / "glossary.md"), flags=re.MULTILINE)
    }
    used = set()
    for page in PAGES:
        for words in re.findall(r"\{term\}`([^`]+)`", text_of(page)):
            target = re.search(r"<(.+)>$", words)
            used.add((target[1] if target else words).lower())
    assert used
    assert used <= glossary


@pytest.mark.slow
def test_performance_has_every_table_and_a_picture_of_every_table_of_times(performance, tmp_path):
    pytest.importorskip("matplotlib", reason="the page's pictures are drawn with matplotlib")
    source = text_of(ROOT / "benches" / "peers" / "README.md")
    page = performance.page(source, tmp_path)
    tables, timed = [], 0
    for section in performance.sections_of(source):
        for before, part in zip(["", *section.parts], section.parts, strict=False):
            if isinstance(part, performance.Table):
                tables.append(part)
                timed += bool(performance.times(part, before if isinstance(before, str) else ""))
    assert sum(line.startswith("|") for line in source.splitlines()) == sum(
        2 + len(table.rows) for table in tables
    )
    for table in tables:
        for row in (table.header, *table.rows):
            assert "| " + " | ".join(row) + " |" in page
    pictures = re.findall(r"/generated/performance/(\d+\.svg)", page)
    assert len(pictures) == timed > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
    captions = re.findall(r":width: 100%\n\n(.+)\n:::", page)
    assert len(captions) == len(pictures)
    assert all(
        re.search(r"\d{4}-\d\d-\d\d.*: the times of the table below\. .+\.", caption) for caption in captions
    )


def test_labels_of_bars_leave_room_for_these(performance):
    tables = [
        part
        for each in performance.sections_of(text_of(ROOT / "benches" / "peers" / "README.md"))
        for part in each.parts
    ]
    labels = [row[0] for table in tables if isinstance(table, performance.Table) for row in table.rows]
    assert max(map(len, labels)) > 80
    shown = list(map(performance.wrapped, labels))
    assert max(len(line) for label in shown for line in label.splitlines()) <= 48
    assert not any("`" in label for label in shown)


@pytest.mark.parametrize(
    ("cell", "value", "ends", "unit"),
    [
        ("0.018", 0.018, (0.018, 0.018), ""),
        (".14", 0.14, (0.14, 0.14), ""),
        ("0.73 ms", 0.73, (0.73, 0.73), "ms"),
        ("4.1 s, 2 threads 2.7 s", 4.1, (4.1, 4.1), "s"),
        ("27-53, median 37", 37.0, (27.0, 53.0), ""),
        ("16 to 25, earlier that day", np.nan, (16.0, 25.0), ""),
        ("50 (.33191009)", 50.0, (50.0, 50.0), ""),
    ],
)
def test_cells_of_times(performance, cell, value, ends, unit):
    found = performance.value_of(cell)
    np.testing.assert_allclose(found[0], value)
    assert found[1:] == (ends, unit)


def test_cells_without_a_time_are_left_out(performance):
    assert all(np.isnan(performance.value_of(cell)[0]) for cell in ("-", "not run", ""))
    table = performance.Table(
        ["size", "craftc", "steps", "NumPy"], [["small", "2 ms", "7", "30"], ["large", "1.5 s", "9", "-"]]
    )
    ours, theirs = performance.times(table, "")
    assert (ours.name, theirs.name) == ("craftc", "NumPy")
    np.testing.assert_allclose(ours.seconds, [0.002, 1.5])
    np.testing.assert_allclose(theirs.seconds, [0.03, np.nan])
    assert [performance.kind(name) for name in ("craftc", "NumPy", "floor")] == ["ours", "peer", "floor"]
