"""Fixtures of the tests of files."""

from __future__ import annotations

import pytest

import craftc


@pytest.fixture
def read(tmp_path):
    """Read a text or bytes as a file; returns the table and its notes as one text."""

    def read(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        table = craftc.read_table(path, **options)
        return table, " | ".join(table.attrs["notes"])

    return read
