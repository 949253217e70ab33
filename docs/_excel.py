"""The example of docs/excel.md: ``python docs/_excel.py`` writes its pictures to docs/_static.

It makes the workbooks of two months, runs the commands of the page, and takes pictures of the report with
chromium.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))  # an installed craftc comes first

from craftc.cli import main as craftc_main

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "_static"
WIDTH, COLOURS = 900, 32  # of a picture
NAMES = """column,name
Revenue/yr,revenue
Orders/yr,orders
Customer since,since
Avg discount,discount
cluster 1,Occasional readers
cluster 2,Families
cluster 3,Bargain hunters
cluster 4,Loyal gardeners
cluster 5,Business
"""
INTERESTS = ("Garden", "Kids", "Tools", "Books", "Sport")
PLANS, CHANNELS = ("Basic", "Plus", "Business"), ("web", "app", "shop", "phone")
# of the five kinds of customers: shares of the rows, orders and revenue in a year, discount, months as a
# customer, and the shares that take the newsletter and that have left
SHARES = (0.30, 0.25, 0.20, 0.15, 0.10)
ORDERS, REVENUE = (3, 9, 5, 6, 26), (90, 420, 260, 330, 3900)
DISCOUNT, MONTHS = (0.05, 0.10, 0.30, 0.02, 0.15), (30, 40, 14, 85, 55)
NEWSLETTER, LEFT = (0.3, 0.8, 0.9, 0.1, 0.2), (0.15, 0.08, 0.40, 0.05, 0.06)
# shares of the plans, of the channels, and of the rows with each interest
OF_PLANS = (
    (0.90, 0.09, 0.01),
    (0.15, 0.80, 0.05),
    (0.70, 0.28, 0.02),
    (0.60, 0.35, 0.05),
    (0.02, 0.08, 0.90),
)
OF_CHANNELS = (
    (0.70, 0.15, 0.10, 0.05),
    (0.15, 0.75, 0.05, 0.05),
    (0.25, 0.65, 0.05, 0.05),
    (0.05, 0.02, 0.78, 0.15),
    (0.20, 0.05, 0.05, 0.70),
)
OF_INTERESTS = (
    (0.2, 0.10, 0.1, 0.7, 0.10),
    (0.1, 0.80, 0.1, 0.3, 0.40),
    (0.1, 0.10, 0.1, 0.1, 0.90),
    (0.9, 0.10, 0.6, 0.2, 0.10),
    (0.1, 0.05, 0.9, 0.1, 0.05),
)


def customers(n: int, seed: int, month: str) -> tuple[pd.DataFrame, np.ndarray]:
    """An export of a CRM system at the end of a month, and the segment of every row."""
    rng = np.random.default_rng(seed)
    segment = rng.choice(len(SHARES), n, p=SHARES)

    def of(values: Sequence[object]) -> np.ndarray:
        return np.array(values)[segment]

    def chosen(options: tuple[str, ...], shares: Sequence[Sequence[float]]) -> list[str]:
        return [str(rng.choice(options, p=shares[k])) for k in segment]

    plans, channels = chosen(PLANS, OF_PLANS), chosen(CHANNELS, OF_CHANNELS)
    has = rng.random((n, len(INTERESTS))) < of(OF_INTERESTS)
    interests = [", ".join(np.array(INTERESTS)[each]) for each in has]
    months = np.maximum(rng.normal(of(MONTHS), 4.0), 0.5)
    since = pd.Timestamp(month) - pd.to_timedelta(months * 30.4, unit="D")
    first, last = ("Ada", "Ben", "Cem", "Dana", "Eli", "Fay"), ("Adler", "Brandt", "Costa", "Dietz", "Egger")
    table = pd.DataFrame(
        {
            "Customer no.": rng.permutation(np.arange(10_000, 10_000 + n)),
            "Name": [f"{rng.choice(first)} {rng.choice(last)}" for _ in range(n)],
            "E-mail": [f"kunde{i}@example.org" for i in rng.integers(0, 9 * n, n)],
            "Customer since": since.strftime("%d.%m.%Y"),
            "Plan": np.where(rng.random(n) < 0.04, "", plans),
            "Channel": channels,
            "Interests": interests,
            "Orders/yr": rng.poisson(of(ORDERS)),
            "Revenue/yr": [f"{x:,.2f} €" for x in of(REVENUE) * np.exp(rng.normal(0.0, 0.3, n))],
            "Avg discount": [f"{x:.0%}" for x in np.clip(rng.normal(of(DISCOUNT), 0.03), 0.0, 0.6)],
            "Newsletter": np.where(rng.random(n) < of(NEWSLETTER), "x", ""),
            "Left": np.where(rng.random(n) < of(LEFT), "yes", "no"),
        }
    )
    return table, segment


def write_workbook(path: Path, table: pd.DataFrame, title: str) -> None:
    """The table as a CRM system exports it: a sheet of notes first, titles above, a total below."""
    book = openpyxl.Workbook()
    book.active.title = "Read me"
    book.active.append(["Exported by the CRM system. Internal use only."])
    sheet = book.create_sheet("Customers")
    sheet.append([title])
    sheet.append([])
    sheet.append(list(table.columns))
    for row in table.itertuples(index=False):
        sheet.append([None if cell == "" else cell.item() if hasattr(cell, "item") else cell for cell in row])
    sheet.append(["Total", *[None] * 6, int(table["Orders/yr"].sum())])
    book.save(path)


def write_files(folder: Path) -> None:
    """The workbooks of two months, and the names of the segments."""
    may, june = customers(900, 3, "2026-05-31")[0], customers(240, 2, "2026-06-30")[0]
    write_workbook(folder / "crm-may.xlsx", may, "CRM export 2026-05-31")
    write_workbook(folder / "crm-june.xlsx", june.drop(columns="Left"), "CRM export 2026-06-30")
    (folder / "names.csv").write_text(NAMES, encoding="utf-8")


def run(folder: Path, command: str) -> str:
    """What a command of the page prints, in a folder."""
    before, printed = Path.cwd(), io.StringIO()
    os.environ["COLUMNS"] = "88"  # as wide as the page
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            assert craftc_main(shlex.split(command)[1:]) == 0
    finally:
        os.chdir(before)
        del os.environ["COLUMNS"]
    return printed.getvalue()


def commands() -> list[str]:
    """The commands of the page, in its order."""
    page = (ROOT / "docs" / "excel.md").read_text(encoding="utf-8")
    return re.findall(r"^craftc (?:cluster|predict) .+$", page, flags=re.MULTILINE)


def picture(report: Path, sections: str, path: Path, height: int) -> None:
    """A picture of a part of a report, which a selector of CSS names."""
    from PIL import Image

    page = report.read_text(encoding="utf-8")
    hidden = ".page>*:not(main),main>*,.long{display:none}"
    style = f"{hidden}{sections}{{display:block!important}}body{{padding:8px}}"
    shown = report.with_name("shown.html")
    shown.write_text(page.replace("</head>", f"<style>{style}</style></head>"), encoding="utf-8")
    raw = report.with_name("shown.png")
    browser = shutil.which("chromium") or "chromium-browser"
    flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{height}"]
    subprocess.run([browser, *flags, f"--screenshot={raw}", shown.as_uri()], check=True, capture_output=True)
    with Image.open(raw) as image:
        image.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        for command in commands():
            print(f"$ {command}\n{run(folder, command)}")
        report = folder / "segments" / "report.html"
        picture(report, ".page>header,main>#overview", PICTURES / "excel-overview.png", 1130)
        picture(report, "main>#features", PICTURES / "excel-features.png", 600)
        picture(report, "main>#clusters,#c3", PICTURES / "excel-cluster.png", 720)


if __name__ == "__main__":
    main()
