"""Messages of the library in the words of the command line."""

from __future__ import annotations

import re


def in_options(message: str) -> str:
    """A message of the estimator or of `read_table` with parameters replaced by options."""
    text = re.sub(r"\bprice_factor(=| must )", r"--price-factor\1", message)
    text = re.sub(r"\bn_clusters(=| must )", r"--clusters\1", text)
    text = text.replace("--price-factor=", "--price-factor ").replace("--clusters=", "--clusters ")
    text = re.sub(r"na_values=\[(.*)\] makes", lambda found: f"--na {found[1].replace(',', '')} makes", text)
    text = text.replace("header=True", "--header yes").replace(" left after skip=", " left after --skip ")
    text = text.replace(
        "on_unusable='keep' keeps such columns", "name columns in --numeric or --categorical to include them"
    )
    return text.replace("cut(k)", "--clusters K").removeprefix("CRAFT found ")
