"""The pages about Excel exports and columns say what the commands do, and name options that exist."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

import craftc
from tests.common import ROOT

pytest.importorskip("openpyxl", reason="the example is a workbook")
pytest.importorskip("jinja2", reason="the example writes a report")
DOCS = ROOT / "docs"
PAGES = [DOCS / name for name in ("columns.md", "excel.md")]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    return importlib.import_module("_excel")


def test_the_excel_page_shows_what_its_commands_print(example, tmp_path):
    blocks = re.findall(
        r"```text\n(.*?)```", (DOCS / "excel.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    opening, clusters, names, scored = blocks
    assert names == example.NAMES
    example.write_files(tmp_path)
    first, second, third = example.commands()
    printed = example.run(tmp_path, first)
    assert opening in printed
    assert clusters in printed
    assert "5 clusters" in clusters
    named = example.run(tmp_path, second)
    assert all(name in named for name in ("Bargain hunters", "Loyal gardeners", "revenue"))
    assert (tmp_path / "segments" / "report.html").exists()
    example.run(tmp_path, third)
    lines = (tmp_path / "june.csv").read_text(encoding="utf-8").splitlines()
    last = re.compile(r"(?<=\.\d{9})\d+")  # digits that depend on NumPy's logarithm
    assert [last.sub("", line) for line in lines[:4]] == [last.sub("", line) for line in scored.splitlines()]
    assert len(lines) == 241


def test_pictures_of_the_excel_page_are_small():
    pictures = re.findall(r"!\[.+\]\((.+\.png)\)", (DOCS / "excel.md").read_text(encoding="utf-8"))
    assert len(pictures) == 3
    assert max((DOCS / picture).stat().st_size for picture in pictures) <= 80_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_that_pages_name_exist(page):
    from craftc.cli.options import craftc as group

    text = page.read_text(encoding="utf-8")
    known = {name for command in group.commands.values() for each in command.params for name in each.opts}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text))
    assert named
    assert named <= known
    functions = (craftc.read_table, craftc.CRAFT, craftc.CRAFT.fit, craftc.report.write)
    parameters = {name for function in functions for name in inspect.signature(function).parameters}
    assert set(re.findall(r"[`(, ]([a-z_]+)=(?=[\[{\"`])", text)) <= parameters


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("blanks", "missing"), ("decimal", ","), ("dates", "parts"), ("dates", "drop"), ("on_unusable", "keep")],
)
def test_values_of_options_that_the_columns_page_names_are_taken(parameter, value):
    pd = pytest.importorskip("pandas")
    assert f'{parameter}="{value}"' in PAGES[0].read_text(encoding="utf-8")
    table = pd.DataFrame({"x": ["1,5", "2,5", "3,5"] * 4, "y": list("aab") * 4})
    assert len(craftc.read_table(table, **{parameter: value})) == 12
