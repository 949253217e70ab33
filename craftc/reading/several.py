"""Cells that hold several answers, such as "Python;SQL": what separates them, and which answers there are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from craftc._common.typing import Array, Integers
from craftc.table.kinds import is_absent

MOST_ANSWERS = 60  # that get a column each
LISTS = "lists"  # in the place of a separator: the cells are lists
_SEPARATORS = (";", "|", "\n", ",", "/")
_COVERED = 0.9  # share of the cells that these answers make up
_SEVERAL = 0.1  # share of the cells with several answers, at least
_ALSO_FIRST = 0.6  # share of the later answers that come first in other cells: places have no meaning
_FEWEST = 10  # cells
_LONGEST = 80  # characters of an answer
_EXPECTED = 5  # rows in which an answer would be given with others, at least, if it were as the others are
#: Answers that say that none of the others is given.
_NONE = re.compile(
    r"(no|none|nothing|neither|kein(e[rs]?)?|nichts|aucune?s?|rien|nessun[oa]?|niente|ning[uú]n[oa]?|nada"
    r"|nenhum(a)?|geen|niets)\b.*",
    re.IGNORECASE,
)
_FEW_ENDINGS = 2  # different texts behind a colon that are answers of their own
_OF_NUMPY = re.compile(r"\bnp\.str_\((.*?)\)(?=[,\]})])")  # a text in a list of NumPy's texts


@dataclass(frozen=True)
class Answers:
    """The answers of a column."""

    separator: str
    options: tuple[str, ...]  # the most frequent first
    alone: tuple[str, ...] = ()  # answers without a column, which are never given with others
    partial: bool = False  # whether many cells have other answers, by declaration

    def of_cell(self, cell: object) -> list[str]:
        """The different answers in a cell, spelled as here: split by the separator, or by another one where
        that leads to more of these answers.
        """
        own = self._spelled(answers_in(cell, self.separator))
        if self._known.issuperset(own):
            return own
        others = (self._spelled(answers_in(cell, each)) for each in _SEPARATORS if each != self.separator)
        return max((own, *others), key=lambda answers: len(self._known.intersection(answers)))

    def is_unknown(self, answers: Sequence[str]) -> bool:
        """Whether a cell with these answers has none of the column, and so says nothing of them."""
        return not self.partial and bool(answers) and self._known.isdisjoint(answers)

    def _spelled(self, answers: Sequence[str]) -> list[str]:
        own = (each if each in self._known else self._spelling.get(each.casefold(), each) for each in answers)
        return shortened([list(own)], self.options)[0]

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.options, *self.alone))

    @cached_property
    def _spelling(self) -> dict[str, str]:
        """The answer of each text in lower case that only one answer has."""
        n = Counter(map(str.casefold, self._known))
        return {each.casefold(): each for each in self._known if n[each.casefold()] == 1}


def answers_in(cell: object, separator: str) -> list[str]:
    """The different answers in a cell, in its order; a list has them without a separator."""
    if isinstance(cell, Iterable) and not isinstance(cell, str):
        parts = (str(part).strip() for part in cell if not is_absent(part))
        return list(dict.fromkeys(part for part in parts if part))
    text = str(cell).strip()
    if text[:1] + text[-1:] in ("[]", "{}", "()"):
        text = _OF_NUMPY.sub(r"\1", text)[1:-1]
        separator = separator if separator in text else ","  # a list, where the fit had one text
    whole = re.split(rf"{re.escape(separator)}(?![^()]*\))", text) if "(" in text else text.split(separator)
    parts = (part.strip().strip("\"'").strip() for part in whole)
    return list(dict.fromkeys(part for part in parts if part))


def find_answers(texts: Sequence[str], counts: Integers) -> Answers | None:
    """What separates the answers of a column of texts, or None if a cell is one answer.

    `texts`: distinct cells. `counts`: number of rows of each.
    """
    for separator in _SEPARATORS:
        if sum(int(n) for text, n in zip(texts, counts, strict=True) if separator in text) < _FEWEST / 2:
            continue
        cells = [answers_in(text, separator) for text in texts]
        if len({text.count(separator) for text in texts}) == 1 and all(
            part.isdecimal() for cell in cells for part in cell
        ):
            continue  # numbers whose places have a meaning, as in "12;6"
        cells = shortened(cells, _stems(cells))
        several = sum(int(n) for cell, n in zip(cells, counts, strict=True) if len(cell) > 1)
        if several < _SEVERAL * counts.sum() or counts.sum() < _FEWEST:
            continue
        options = frequent(cells, counts)
        first = {cell[0] for cell in cells if cell}
        later = {answer for cell in cells for answer in cell[1:]}.intersection(options)
        if len(later & first) < _ALSO_FIRST * len(later) or not 1 < len(options) < len(texts):
            continue
        if covers(options, cells, counts) and max(map(len, options)) <= _LONGEST:
            return _without_alone(separator, options, cells, counts)
    return None


def _stems(cells: Sequence[Sequence[str]]) -> set[str]:
    """What precedes the colon of several different answers: "Other" of "Other: by bus"."""
    endings: dict[str, set[str]] = {}
    for answer in {answer for cell in cells for answer in cell if ":" in answer}:
        stem, _, ending = answer.partition(":")
        endings.setdefault(stem.rstrip(), set()).add(ending)
    return {stem for stem, own in endings.items() if stem and len(own) > _FEW_ENDINGS}


def shortened(cells: Iterable[Sequence[str]], stems: Collection[str]) -> list[list[str]]:
    """Cells with these answers in the place of answers that begin with them and a colon."""

    def short(answer: str) -> str:
        stem = answer.partition(":")[0].rstrip() if ":" in answer and answer not in stems else ""
        return stem if stem in stems else answer

    return [list(dict.fromkeys(map(short, cell))) for cell in cells]


def _without_alone(
    separator: str, options: Sequence[str], cells: Sequence[Sequence[str]], counts: Integers
) -> Answers:
    """The answers without the one that is never given with others, or those of these that mean none of the
    others: the columns of the others say the same.
    """
    n_answers = np.array([len(cell) for cell in cells])
    share = counts[n_answers > 1].sum() / counts.sum()
    alone = []
    for option in options:
        own = np.array([option in cell for cell in cells])
        if not (own & (n_answers > 1)).any() and counts[own].sum() * share >= _EXPECTED:
            alone.append(option)
    alone = alone if len(alone) == 1 else list(filter(_NONE.fullmatch, alone))
    left = tuple(option for option in options if option not in alone)
    return Answers(separator, left, tuple(alone)) if len(left) > 1 else Answers(separator, tuple(options))


def named_answers(texts: Sequence[str], counts: Integers) -> Answers | None:
    """The answers of a column that holds several by declaration, with the separator of the most cells."""
    n_cells = {
        separator: sum(int(n) for text, n in zip(texts, counts, strict=True) if separator in text)
        for separator in _SEPARATORS
    }
    separator = max(n_cells, key=n_cells.__getitem__)
    if not n_cells[separator]:
        return None
    cells = [answers_in(text, separator) for text in texts]
    options = frequent(cells, counts)
    return Answers(separator, tuple(options), (), not covers(options, cells, counts)) if options else None


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
