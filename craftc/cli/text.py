"""Words of the command line: names as safe text, counts, shares and nats."""

from __future__ import annotations

import re
from typing import Any

Parts = list[tuple[str, str]]  # of a cell: a name, which may be truncated, and the text after it

#: Parts of a block, from one eighth to the whole.
EIGHTHS = "▏▎▍▌▋▊▉█"

_LONGEST = 400  # characters of a name or level that are read; a line of the output seldom has more
_LONGEST_MESSAGE = 2000


def clean(text: str) -> str:
    """A message as one line of a terminal: without line breaks and control characters."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + "…"
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line) or "''"


def name_of(value: Any) -> str:
    """A column name, level or class as one line; only the first characters of a long text are read."""
    text = str(value)
    start = text[: 2 * _LONGEST].lstrip()[:_LONGEST]
    return clean(start) + ("…" if len(text) > 2 * _LONGEST or len(text.lstrip()) > _LONGEST else "")


def plural(count: int, one: str, many: str = "") -> str:
    """ "1 row", "1,200 rows"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(share: float) -> str:
    """A share as "59 %"; "0 %" means none and "100 %" means all."""
    if 0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def after(name: str, share: float) -> str:
    """The share that follows a name: "male 97 %", but "2: 73 %"."""
    return (": " if name[-1:].isdigit() else " ") + percent(share)


def nats(value: float) -> str:
    """ "1,234", "12.3"."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def bar_of(length: float, blocks: str) -> str:
    """A bar of this length in blocks, rounded to the available parts of a block."""
    parts = round(length * len(blocks))
    whole, part = divmod(parts, len(blocks))
    return blocks[-1] * whole + (blocks[part - 1] if part else "")


def in_options(message: str) -> str:
    """A message of the library with parameters replaced by options."""
    text = re.sub(r"\bprice_factor(=| must )", r"--price-factor\1", message)
    text = re.sub(r"\bn_clusters(=| must )", r"--clusters\1", text)
    text = text.replace("--price-factor=", "--price-factor ").replace("--clusters=", "--clusters ")
    text = re.sub(r"na_values=\[(.*)\] makes", lambda found: f"--na {found[1].replace(',', '')} makes", text)
    text = text.replace("header=True", "--header yes").replace(" left after skip=", " left after --skip ")
    text = text.replace(
        "on_unusable='keep' keeps such columns", "name columns in --numeric or --categorical to include them"
    )
    return text.replace("cut(k)", "--clusters K").removeprefix("CRAFT found ")
