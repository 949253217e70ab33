"""Types of the values of options, besides those of click."""

from __future__ import annotations

import click


class AutoOrNumber(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A number, or auto."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        try:
            return "auto" if value == "auto" else float(str(value))
        except ValueError:
            self.fail(f"must be auto or a number > 0, got {value!r}", param, ctx)


class NumberOrRange(click.ParamType):  # type: ignore[type-arg]
    """A whole number, or a smallest and a largest one as 3-6."""

    name = "number"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | tuple[int, int]:
        ends = str(value).split("-") if not str(value).startswith("-") else [str(value)]
        try:
            numbers = tuple(map(int, ends))
        except ValueError:
            numbers = ()
        if len(numbers) not in (1, 2):
            self.fail(f"must be a whole number or a range as 3-6, got {value!r}", param, ctx)
        return (numbers[0], numbers[1]) if len(numbers) == 2 else numbers[0]


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of rows, or a share of the rows."""

    name = "number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            return int(text) if text.isdigit() else float(text)
        except ValueError:
            self.fail(f"must be a number of rows, or a share of the rows as 0.05, got {value!r}", param, ctx)
