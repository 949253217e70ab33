"""Cells of Excel sheets."""

from __future__ import annotations

from typing import Any


def text_cell(sheet: Any, text: str) -> Any:
    """A text as a cell of a write-only sheet; it stays a text, even if it begins like a formula."""
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE  # type: ignore[import-untyped]

    cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", text))
    cell.data_type = "s"
    return cell
