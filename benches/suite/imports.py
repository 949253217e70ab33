"""What `import` costs a fresh process."""

from __future__ import annotations


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
