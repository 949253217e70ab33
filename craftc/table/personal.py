"""Columns that look as if they identified persons: no message and no report repeats single cells of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice

from craftc._common.messages import listed

HIDDEN = "values not shown"  # in the place of cells that may identify persons

_LOOKED_AT = 500  # levels of a column
_FEWEST = 5  # levels from which a column is judged by them
_MOST = 0.5  # share of the levels that look personal, at least
_NAMES = 0.3  # the same of texts with a frequent first name


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = _set(
    "email mail phone telephone telefon tel mobile handy fax address adresse addr "
    "street strasse straße zip "
    "zipcode postcode postal plz postleitzahl ssn surname firstname lastname fullname forename vorname "
    "nachname prenom prénom apellido apellidos nombre username login iban passport dob birthdate birthday "
    "geburtsdatum geburtstag birth"
)
#: With one of these words, or alone, a name is that of a person.
_WHOSE = _set(
    "first last full family given middle maiden customer client contact patient employee person user owner "
    "member student passenger kunde kunden kundin mitarbeiter"
)
_PARTS = re.compile(
    r"e-?mail|phone|telefon|postcode|zipcode|vorname|nachname|surname|kundenname", re.IGNORECASE
)
_WORD = re.compile(r"[A-ZÄÖÜÉ]?[a-zäöüßéèêñç]+|[A-ZÄÖÜÉ]+(?![a-zäöüß])|\d+")
_FORMS = re.compile(
    r"[^@\s]+@[^@\s]+\.\w+"  # an e-mail
    r"|(?:\+|0|\()(?=(?:\D*\d){7})[\d\s()/.-]+"  # a telephone number
    r"|\d+\w?,? .*\b(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|court|way|rue)\b\.?.*"
    r"|.*(?:stra(?:ss|ß)e|str\.|weg|platz|allee|gasse|street|road|avenue|lane|\bvia\b.*|\bcalle\b.*)"
    r" ?\d+ ?\w?",
    re.IGNORECASE,
)
_FIRST_NAMES = _set(
    "adam ahmed alexander ali alice amanda amy ana andrea andrew angela anna anne anthony antonio "
    "barbara ben benjamin bernd brian carla carlos carmen carol caroline charles chen chris christian "
    "christine claudia cynthia daniel david deborah dennis diana donald donna edward elena elizabeth "
    "emily emma eric eva fatima felix francesco francisco frank gary george gina giovanni hannah hans "
    "heather helen helga ida ines irina ivan jack james jan jane janet jason jean jeff jennifer jessica "
    "joan johann john jonas jorge jose joseph joshua juan julia julie jürgen karen karl kate katharina "
    "kathleen kenneth kevin kim klaus larry laura lena li linda lisa louis luca lucas luis luke manuel "
    "marco margaret maria marie mario mark martin mary matthew max maya melissa michael michelle "
    "mohamed mohammed monika nancy nicole nina noah olga oliver pablo patricia patrick paul paula pedro "
    "peter petra philip pierre rachel ralph rebecca richard robert roger ronald rosa ruth ryan sabine "
    "samuel sandra sarah scott sergei sharon sofia sophie stefan stephanie stephen steven susan susanne "
    "teresa thomas tim timothy ursula walter wang wei william wolfgang yuki"
)


def is_personal(name: str, levels: Collection[object] = ()) -> bool:
    """Whether a column looks as if it held names, addresses, e-mails, telephone numbers, postal codes or
    dates of birth, by its name and, of a categorical column, by its levels.
    """
    words = {word.casefold() for word in _WORD.findall(name)}
    if words & _WORDS or _PARTS.search(name) or ("name" in words and (words & _WHOSE or len(words) == 1)):
        return True
    texts = [str(level).strip() for level in islice(levels, _LOOKED_AT)]
    if len(texts) < _FEWEST:
        return False
    forms = sum(_FORMS.fullmatch(text) is not None for text in texts)
    return forms >= _MOST * len(texts) or sum(map(_is_person, texts)) >= _NAMES * len(texts)


def _is_person(text: str) -> bool:
    """Whether a text of two to four words has a frequent first name in front or after a comma: "Anna Meyer",
    "Meyer, Anna".
    """
    words = text.split()
    first = words[1 if words[0].endswith(",") else 0] if 2 <= len(words) <= 4 else ""
    return first[:1].isupper() and first.strip(",.").casefold() in _FIRST_NAMES


def shown_cells(name: str, cells: Sequence[str], levels: Collection[object] = ()) -> str:
    """The first of some cells of a column, for a message; of a column that looks personal, none."""
    if is_personal(name, levels or cells):
        return "not shown, because they look personal"
    return listed(cells)
