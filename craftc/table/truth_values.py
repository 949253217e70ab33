"""Words for true and false, which databases and programs turn into truth values and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

T = TypeVar("T")

_PAIRS = (
    ("true", "false"),
    ("t", "f"),
    ("yes", "no"),
    ("y", "n"),
    ("on", "off"),
    ("ja", "nein"),
    ("wahr", "falsch"),
    ("oui", "non"),
    ("vrai", "faux"),
    ("sí", "no"),
    ("si", "no"),
    ("verdadero", "falso"),
    ("vero", "falso"),
)
_MARKS = (("1", "0"), ("1.0", "0.0"), ("x", "no"), ("✓", "no"), ("✔", "no"))  # of numbers and ticked boxes


def truth_words(words: Collection[str]) -> dict[bool, str]:
    """Which of these words means true and which false; empty if there is another word."""
    own = {word.casefold(): word for word in words}
    for pair in _PAIRS:
        if len(own) == len(words) and own.keys() <= set(pair):
            return {word == pair[0]: own[word] for word in pair if word in own}
    return {}


def same_truth(text: str, words: Collection[str]) -> str | None:
    """The one of these words that means what a text does, where the text or the words are true and false."""
    if text.casefold() in _PAIRS[0]:
        return truth_level(text.casefold() == "true", words)
    own, said = truth_words(words), truth_words([text])
    if {each.casefold() for each in own.values()}.isdisjoint(_PAIRS[0]):
        return None
    said = said or {
        one: text
        for marks in _MARKS[:2]
        for one, mark in zip((True, False), marks, strict=True)
        if text == mark
    }
    return next((own[value] for value in said if value in own), None)


def truth_level(value: bool, levels: Iterable[T]) -> T | None:
    """The level that a truth value stands for where both words of a pair are levels, as "yes" and "no" are;
    None if no pair is, or several are.
    """
    pairs = (*_PAIRS, *_MARKS)
    known = {word for pair in pairs for word in pair}
    own = [level for level in levels if str(level).casefold() in known]
    of_word = {str(level).casefold(): level for level in own}
    for pair in pairs:
        if len(own) == len(of_word) == 2 and of_word.keys() == set(pair):
            return of_word[pair[0 if value else 1]]
    return None
