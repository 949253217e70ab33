"""What a new process pays: imports, a first fit, and the command line from its start to its end."""

from __future__ import annotations

from pathlib import Path

HEART = str(Path(__file__).resolve().parents[2] / "examples" / "heart.csv")


def timeraw_import_numpy() -> str:
    """Part of all others."""
    return "import numpy"


def timeraw_import_craftc() -> str:
    return "import craftc"


def timeraw_import_craft() -> str:
    return "from craftc import CRAFT"


def timeraw_import_everything() -> str:
    """All public names, which are read one by one otherwise."""
    return "import craftc; [getattr(craftc, name) for name in craftc.__all__ if name not in ('cli', 'plot')]"


def timeraw_import_kernels() -> str:
    """What an embedder of the kernels pays: NumPy and no more."""
    return "import craftc._kernels.parallel, craftc._kernels.craft"


def timeraw_first_fit() -> str:
    """Imports, and the default fit of a small table."""
    return (
        "from craftc import CRAFT; from sklearn.datasets import load_iris; "
        "CRAFT(random_state=0).fit(load_iris().data)"
    )


def timeraw_cluster_command() -> str:
    """``craftc cluster heart.csv``, whose page is not timed by its terminal."""
    run = f"with contextlib.redirect_stdout(io.StringIO()): craftc.cli.main(['cluster', {HEART!r}])"
    return f"import contextlib, io, craftc.cli\n{run}"
