"""The log of a command: notes for people, or one JSON object for every stage and file."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from craftc.cli.arguments import clean, in_options


def json_line(stage: str, **facts: object) -> str:
    """A line of the log for programs."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "stage": stage, **facts})


class Log:
    """Lines on stderr: notes of one line, or with `as_json` one JSON object for each stage, file and note."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self._as_json, self._quiet, self._start = as_json, quiet, time.monotonic()
        self._said: set[str] = set()  # a note on several files is one line for people

    def stage(self, stage: str, **facts: object) -> None:
        """A stage or a file that is done, for programs."""
        if self._as_json:
            known = {name: fact for name, fact in facts.items() if fact is not None}
            self._print(json_line(stage, elapsed_s=round(time.monotonic() - self._start, 3), **known))

    def notes(self, notes: Iterable[str], file: str | None = None) -> None:
        """What was assumed."""
        for note in notes:
            text = clean(in_options(note))
            if self._as_json:
                self.stage("note", file=file, message=text)
            elif not self._quiet and text not in self._said:
                self._said.add(text)
                self._print(f"craftc: note: {text}")

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Warnings of the estimators in a block are notes, once it ends."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                said = (each for each in warned if issubclass(each.category, UserWarning))
                self.notes(dict.fromkeys(str(each.message) for each in said))

    @staticmethod
    def _print(line: str) -> None:
        print(line, file=sys.stderr, flush=True)
