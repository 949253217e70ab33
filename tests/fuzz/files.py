"""Tables written in twelve dialects by a generator that knows the truth, and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import craftc

WORDS = ["red", "green", "blue", "grey", "Zürich", "Genève", "x y", "O'Neil", "p&q"]
ANSWERS = np.array(["Python", "SQL", "R", "C++"])


@dataclass
class Truth:
    """A table of numbers, texts, dates, ticked boxes and several answers."""

    numbers: dict[str, np.ndarray]  # NaN: missing
    whole: dict[str, np.ndarray]
    texts: dict[str, list[str]]  # "": missing
    dates: dict[str, np.ndarray]  # datetime64[D]
    ticks: dict[str, np.ndarray]  # of bool
    answers: dict[str, np.ndarray]  # of bool, one column for each of ANSWERS

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.whole.values())))


def draw(seed: int) -> Truth:
    """A random table."""
    g = np.random.default_rng(seed)
    n = int(g.integers(40, 200))
    numbers = {f"amount {i}": np.round(g.normal(50, 300, n), 2) for i in range(int(g.integers(1, 4)))}
    for values in numbers.values():
        values[g.random(n) < 0.05] = np.nan
    whole = {f"count {i}": g.integers(0, 40_000, n).astype(float) for i in range(int(g.integers(1, 3)))}
    texts = {}
    for i in range(int(g.integers(1, 4))):
        levels = g.choice(WORDS, int(g.integers(2, 6)), replace=False)
        texts[f"kind {i}"] = [str(level) for level in g.choice(levels, n)]
    start = np.datetime64("2020-01-01") + g.integers(0, 2000, n).astype("timedelta64[D]")
    if g.random() < 0.5:
        texts["kind 0"] = [cell if g.random() < 0.9 else "" for cell in texts["kind 0"]]
    ticks = {"news": g.random(n) < g.uniform(0.2, 0.8)}
    answers = {"lang": g.random((n, len(ANSWERS))) < g.uniform(0.3, 0.6)}
    return Truth(numbers, whole, texts, {"day": start}, ticks, answers)


@dataclass(frozen=True)
class Dialect:
    """How a table is written."""

    mark: str = ","
    point: str = "."
    thousands: str = ""
    date: str = "%Y-%m-%d"
    encoding: str = "utf-8"
    top: Callable[[int], str] = lambda width: ""
    bottom: Callable[[str, int], str] = lambda mark, width: ""
    quote: bool = False
    end: str = "\n"

    def number(self, value: float, digits: int) -> str:
        if np.isnan(value):
            return ""
        text = f"{value:,.{digits}f}" if self.thousands else f"{value:.{digits}f}"
        return text.replace(",", "t").replace(".", self.point).replace("t", self.thousands)

    def write(self, truth: Truth) -> bytes:
        columns = {name: [self.number(x, 2) for x in values] for name, values in truth.numbers.items()}
        columns |= {name: [self.number(x, 0) for x in values] for name, values in truth.whole.items()}
        columns |= truth.texts
        columns |= {
            name: pd.DatetimeIndex(days).strftime(self.date).tolist() for name, days in truth.dates.items()
        }
        columns |= {name: ["x" if tick else "" for tick in ticked] for name, ticked in truth.ticks.items()}
        between = ", " if self.mark == ";" else ";"
        columns |= {
            name: [between.join(ANSWERS[picked]) for picked in rows] for name, rows in truth.answers.items()
        }
        lines = [list(columns), *zip(*columns.values(), strict=True)]
        out = self.top(len(columns)).replace("|", self.mark)
        for line in lines:
            cells = [f'"{cell}"' if self.quote or self.mark in cell else cell for cell in line]
            out += self.mark.join(cells) + "\n"
        out += self.bottom(self.mark, len(columns))
        return out.replace("\n", self.end).encode(self.encoding)


def _total(mark: str, width: int) -> str:
    return f"{mark * (width - 1)}\nSource: the office{mark * (width - 1)}\n"


DIALECTS = {
    "plain": Dialect(),
    "German": Dialect(";", ",", ".", "%d.%m.%Y", "cp1252"),
    "French": Dialect(";", ",", " ", "%d/%m/%Y"),
    "Swiss": Dialect(";", ".", "'", "%d.%m.%Y", "utf-8-sig"),
    "American": Dialect(",", ".", ",", "%m/%d/%Y", quote=True),
    "tabs": Dialect("\t", end="\r\n"),
    "bars": Dialect("|", date="%d %b %Y"),
    "carets": Dialect("^", ",", ""),
    "tildes and commas": Dialect("~", ",", "."),
    "UTF-16": Dialect("\t", encoding="utf-16"),
    "titles": Dialect(top=lambda width: f"Export{'|' * (width - 1)}\nby A. Lee{'|' * (width - 1)}\n"),
    "footnotes": Dialect(";", ",", bottom=_total),
}


def deviations(truth: Truth, content: bytes, folder: str) -> list[str]:
    """Columns of a file that are not read as they were meant."""
    path = f"{folder}/table.dat"
    with open(path, "wb") as file:
        file.write(content)
    table = craftc.read_table(path, on_unusable="keep")
    found = []
    if len(table) != truth.n_rows:
        return [f"{len(table)} rows for {truth.n_rows}"]
    for name, values in (truth.numbers | truth.whole).items():
        if name not in table or not np.array_equal(table[name].astype(float), values, equal_nan=True):
            found.append(name)
    for name, texts in truth.texts.items():
        if name not in table or table[name].astype(object).fillna("").tolist() != texts:
            found.append(name)
    for name, days in truth.dates.items():
        if name not in table or not np.array_equal(table[name], days.astype("datetime64[D]").astype(int)):
            found.append(name)
    for name, ticked in truth.ticks.items():
        if name not in table or not np.array_equal(table[name] == "x", ticked) or table[name].isna().any():
            found.append(name)
    for name, picked in truth.answers.items():
        flags = [f"{name}: {answer}" for answer in ANSWERS]
        if not set(flags) <= set(table) or not np.array_equal(table[flags] == "yes", picked):
            found.append(name)
    return found
