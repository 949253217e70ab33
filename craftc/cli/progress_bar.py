"""A bar on the terminal with the share of the work that is done, and the time left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from craftc.cli.text import clean
from craftc.craft import Progress
from craftc.describe.words import plural


class ProgressBar:
    """A bar on stderr, cleared at the end; nothing is written if it is off or stderr is no terminal."""

    def __init__(self, on: bool) -> None:
        self._bars: Bars | None = None
        self._stage = ""  # of the fit
        if on and sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[left]}", markup=False),
            )
            console = Console(file=sys.stderr, markup=False, emoji=False, highlight=False)
            self._bars = Bars(*columns, console=console, transient=True)
            self._task = self._bars.add_task("", total=None, left="")

    def __enter__(self) -> ProgressBar:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def stage(self, text: str) -> None:
        """Show a stage whose length is not known."""
        if self._bars is not None:
            self._bars.update(self._task, description=clean(text)[:60], total=None, left="", refresh=True)

    @property
    def callback(self) -> Callable[[Progress], None] | None:
        """The callback of a fit; None if there is no bar."""
        return None if self._bars is None else self._show

    def _show(self, progress: Progress) -> None:
        assert self._bars is not None
        left = f"{100 * progress.share:.0f} %" + (
            "" if progress.remaining_s is None else f", {duration(progress.remaining_s)} left"
        )
        text = f"{progress.stage}: {plural(progress.n_clusters, 'cluster')}"
        new, self._stage = progress.stage != self._stage, progress.stage  # even a short stage is shown
        self._bars.update(
            self._task, description=text, total=1.0, completed=progress.share, left=left, refresh=new
        )


def duration(seconds: float) -> str:
    """ "8 s", "2 min 30 s", "1 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h" + (f" {minutes} min" if minutes else "")
