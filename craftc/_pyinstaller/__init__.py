"""The hook by which PyInstaller finds what an application needs of craftc; it asks the entry point
`pyinstaller40`.
"""

from __future__ import annotations

from pathlib import Path


def hook_dirs() -> list[str]:
    """The folder of the hook."""
    return [str(Path(__file__).parent)]
