"""Text on a terminal: messages as safe lines, and bars."""

from __future__ import annotations

import re

#: Parts of a block, from one eighth to the whole.
EIGHTHS = "▏▎▍▌▋▊▉█"

_LONGEST_MESSAGE = 2000


def clean(text: str) -> str:
    """A message as one line of a terminal: without line breaks and control characters."""
    if len(text) > _LONGEST_MESSAGE:
        text = text[:_LONGEST_MESSAGE] + "…"
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line) or "''"


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
