"""Cells that hold several answers, such as "Python;SQL": what separates them, and which answers there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from craftc._common.typing import Array, Integers

MOST_ANSWERS = 60  # that get a column each
LISTS = "lists"  # in the place of a separator: the cells are lists
_SEPARATORS = (";", "|", "\n", ",", "/")
_COVERED = 0.9  # share of the cells that these answers make up
_SEVERAL = 0.1  # share of the cells with several answers, at least
_ALSO_FIRST = 0.6  # share of the later answers that come first in other cells: places have no meaning
_FEWEST = 10  # cells
_LONGEST = 80  # characters of an answer


@dataclass(frozen=True)
class Answers:
    """The answers of a column."""

    separator: str
    options: tuple[str, ...]  # the most frequent first


def answers_in(cell: object, separator: str) -> list[str]:
    """The different answers in a cell, in its order."""
    if separator == LISTS:
        listed = cell if isinstance(cell, Iterable) and not isinstance(cell, str) else [cell]
        return list(dict.fromkeys(str(part).strip() for part in listed if part is not None))
    text = str(cell).strip()
    if text[:1] + text[-1:] in ("[]", "{}", "()"):
        text = text[1:-1]
        separator = separator if separator in text else ","  # a list, where the fit had one text
    parts = (part.strip().strip("\"'").strip() for part in text.split(separator))
    return list(dict.fromkeys(part for part in parts if part))


def find_answers(texts: Sequence[str], counts: Integers) -> Answers | None:
    """What separates the answers of a column of texts, or None if a cell is one answer.

    `texts`: distinct cells. `counts`: number of rows of each.
    """
    for separator in _SEPARATORS:
        if sum(int(n) for text, n in zip(texts, counts, strict=True) if separator in text) < _FEWEST / 2:
            continue
        cells = [answers_in(text, separator) for text in texts]
        several = sum(int(n) for cell, n in zip(cells, counts, strict=True) if len(cell) > 1)
        if several < _SEVERAL * counts.sum() or counts.sum() < _FEWEST:
            continue
        options = frequent(cells, counts)
        first = {cell[0] for cell in cells if cell}
        later = {answer for cell in cells for answer in cell[1:]}.intersection(options)
        if len(later & first) < _ALSO_FIRST * len(later) or not 1 < len(options) < len(texts):
            continue
        if covers(options, cells, counts) and max(map(len, options)) <= _LONGEST:
            return Answers(separator, tuple(options))
    return None


def named_answers(texts: Sequence[str], counts: Integers) -> Answers | None:
    """The answers of a column that holds several by declaration, with the separator of the most cells."""
    n_cells = {
        separator: sum(int(n) for text, n in zip(texts, counts, strict=True) if separator in text)
        for separator in _SEPARATORS
    }
    separator = max(n_cells, key=n_cells.__getitem__)
    if not n_cells[separator]:
        return None
    options = frequent([answers_in(text, separator) for text in texts], counts)
    return Answers(separator, tuple(options)) if options else None


def find_listed(cells: Sequence[object]) -> Answers | None:
    """The answers of a column of lists."""
    answers = [answers_in(cell, LISTS) for cell in cells]
    ones = np.ones(len(cells), np.intp)
    options = frequent(answers, ones)
    return Answers(LISTS, tuple(options)) if options and covers(options, answers, ones) else None


def frequent(cells: Sequence[Sequence[str]], counts: Integers) -> list[str]:
    """The answers of more than one row, the most frequent first, at most `MOST_ANSWERS`."""
    rows: Counter[str] = Counter()
    for cell, n in zip(cells, counts, strict=True):
        for answer in cell:
            rows[answer] += int(n)
    order = sorted(rows.items(), key=lambda each: (-each[1], each[0]))
    return [answer for answer, n in order[:MOST_ANSWERS] if n > 1]


def covers(options: Sequence[str], cells: Sequence[Sequence[str]], counts: Integers) -> bool:
    """Whether most cells have no other answers than these."""
    known = set(options)
    whole = np.array([known.issuperset(cell) for cell in cells], bool)
    return bool(counts[whole].sum() >= _COVERED * counts.sum())


def flags_of(cells: Sequence[Sequence[str]], option: str) -> Array:
    """Which cells have an answer."""
    return np.array([option in cell for cell in cells], bool)
