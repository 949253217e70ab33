"""Words for true and false, which databases and programs turn into truth values and back."""

from __future__ import annotations

from collections.abc import Collection

_PAIRS = (("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("on", "off"))


def truth_words(words: Collection[str]) -> dict[bool, str]:
    """Which of these words means true and which false; empty if there is another word."""
    own = {word.casefold(): word for word in words}
    for pair in _PAIRS:
        if len(own) == len(words) and own.keys() <= set(pair):
            return {word == pair[0]: own[word] for word in pair if word in own}
    return {}


def same_truth(text: str, words: Collection[str]) -> str | None:
    """The one of these words that means what a text does, where the text or the words are true and false."""
    own, said = truth_words(words), truth_words([text])
    if {each.casefold() for each in (*own.values(), text)}.isdisjoint(_PAIRS[0]):
        return None
    return next((own[value] for value in said if value in own), None)
