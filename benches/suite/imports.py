"""What `import` costs a fresh process."""

from __future__ import annotations


def timeraw_import_craftc() -> str:
    return "import craftc"


def timeraw_import_craft() -> str:
    return "from craftc import CRAFT"
