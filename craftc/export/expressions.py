"""Expressions of SQL that differ between dialects, as trees of sqlglot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

from sqlglot import exp

from craftc.table.level_column import Level

#: Dialects that compare names without regard to case, even quoted ones.
_CASELESS = ("duckdb", "sqlite", "mysql", "bigquery", "spark", "tsql")
DIALECTS = (*_CASELESS, "postgres", "snowflake")
#: Dialects that would otherwise compute a column again for every reference to it.
_FENCED = ("sqlite", "postgres")
_NO_NAN = ("sqlite", "mysql", "tsql")  # which have no NaN
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARTS = re.compile(r'"(?:[^"]|"")+"|[^."]+')
_NUMBER = "^-?[0-9]+([.][0-9]*)?(e[-+]?[0-9]+)?$"
_UNDERFLOW = 700.0  # exp of less than -700 is an error in PostgreSQL


def number(value: float) -> exp.Expr:
    """A number of double precision, exactly; plain decimals would be of another type in some dialects."""
    return formula(number_text(value))


def number_text(value: float) -> str:
    """The text of `number`."""
    text = repr(float(value)).removesuffix(".0")
    return text if "e" in text else f"{text}e0"


def formula(text: str) -> exp.Expr:
    """Arithmetic of plain names and numbers, which all dialects write alike."""
    return exp.Var(this=text)


def total(terms: Sequence[exp.Expr]) -> exp.Expr:
    """The sum of terms; the tree is balanced, so that its depth is small."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return exp.Add(this=total(terms[:half]), expression=total(terms[half:]))


def every(conditions: Iterable[exp.Expr]) -> exp.Expr:
    """All conditions hold."""
    return cast("exp.Expr", exp.and_(*conditions, copy=False))


def is_null(value: exp.Expr) -> exp.Expr:
    """Whether a value is missing."""
    return exp.Is(this=value, expression=exp.null())


def product(*factors: exp.Expr) -> exp.Expr:
    """The product of factors, in parentheses where they are sums."""
    wrapped = [exp.paren(each) if isinstance(each, exp.Binary) else each for each in factors]
    out = wrapped[0]
    for each in wrapped[1:]:
        out = exp.Mul(this=out, expression=each)
    return out


def difference(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """a - b."""
    wrapped = exp.paren(b) if isinstance(b, exp.Add | exp.Sub) else b
    return exp.Sub(this=a, expression=wrapped)


def case(branches: Iterable[tuple[exp.Expr, exp.Expr]], otherwise: exp.Expr | None = None) -> exp.Expr:
    """CASE WHEN ... THEN ... ELSE ... END."""
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=otherwise)


def column(name: str) -> exp.Column:
    """A quoted column."""
    return exp.column(name, quoted=True)


def with_fallback(value: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """COALESCE."""
    return exp.Coalesce(this=value, expressions=[otherwise])


class Dialect:
    """The expressions of one dialect."""

    def __init__(self, name: str) -> None:
        if name not in DIALECTS:
            known = ", ".join(map(repr, sorted(DIALECTS)))
            raise ValueError(f"dialect must be one of {known}, got {name!r}.")
        self.name = name
        self.caseless = name in _CASELESS
        self.fenced = name in _FENCED
        self.log = "LOG" if name == "tsql" else "LN"
        self.floor_text = "CAST({} AS INTEGER)" if name == "sqlite" else "FLOOR({})"  # of positive values
        self.writes_rows = name not in ("bigquery", "mysql")  # VALUES as rows of cells without names

    def text(self, tree: exp.Expr) -> str:
        """The text of a statement."""
        return tree.sql(dialect=self.name, pretty=False, copy=False)

    def table(self, name: str) -> exp.Table:
        """A table, as NAME, SCHEMA.NAME or with quoted parts."""
        parts = _PARTS.findall(name)
        rest = _PARTS.sub("", name)
        if not parts or rest != "." * (len(parts) - 1) or len(parts) > 3:
            raise ValueError(
                f"table must be NAME, SCHEMA.NAME or DATABASE.SCHEMA.NAME, got {name!r}; put names with dots "
                "or quotes in double quotes."
            )
        own = [each[1:-1].replace('""', '"') if each[0] == '"' else each for each in parts]
        quoted = [
            self.name != "snowflake" or given[0] == '"' or not _PLAIN.fullmatch(each)
            for given, each in zip(parts, own, strict=True)
        ]
        names = [exp.to_identifier(each, quoted=q) for each, q in zip(own, quoted, strict=True)]
        db = names[-2] if len(names) > 1 else None
        return exp.Table(this=names[-1], db=db, catalog=names[0] if len(names) > 2 else None)

    # ---- cells ----

    def number_cell(self, cell: exp.Expr) -> exp.Expr:
        """A cell as a number of double precision; NaN is missing."""
        if self.name == "sqlite":  # whose import of CSV leaves empty texts, which it would read as 0
            cell = exp.Nullif(this=cell, expression=exp.Literal.string(""))
        value = exp.cast(cell, exp.DataType.Type.DOUBLE)
        if self.name in _NO_NAN:
            return value
        if self.name == "bigquery":
            return case([(exp.Not(this=exp.IsNan(this=value)), value.copy())])
        nan = exp.cast(exp.Literal.string("NaN"), exp.DataType.Type.DOUBLE)
        return exp.Nullif(this=value, expression=nan)

    def single(self, value: exp.Expr) -> exp.Expr:
        """A number rounded to single precision, in dialects that have it."""
        if self.name in ("bigquery", "snowflake", "sqlite"):
            return value
        rounded = exp.cast(
            value, "real" if self.name in ("duckdb", "postgres", "tsql") else "float", dialect=self.name
        )
        return exp.cast(rounded, exp.DataType.Type.DOUBLE)

    def text_cell(self, cell: exp.Expr) -> exp.Expr:
        """A cell as text that is compared character by character, trailing blanks included."""
        if self.name == "mysql":
            return exp.cast(cell, exp.DataType.Type.BINARY)
        if self.name == "tsql":
            text = exp.cast(cell, exp.DataType.build("nvarchar(max)", dialect="tsql"))
            marked = exp.Add(this=text, expression=exp.National(this="|"))
            return exp.Collate(this=exp.paren(marked), expression=exp.var("Latin1_General_100_BIN2"))
        return exp.cast(cell, exp.DataType.Type.TEXT)

    def trimmed(self, cell: exp.Expr) -> exp.Expr:
        """A cell as text without blanks around it; NULL if nothing is left."""
        to = exp.DataType.build("nvarchar(max)" if self.name == "tsql" else "text", dialect=self.name)
        return exp.Nullif(this=exp.Trim(this=exp.cast(cell, to)), expression=exp.Literal.string(""))

    def literal(self, text: str) -> exp.Expr:
        """A text that `text_cell` is compared with."""
        return exp.National(this=f"{text}|") if self.name == "tsql" else exp.Literal.string(text)

    def level(self, level: Level) -> exp.Expr:
        """A level that is a number or a truth value."""
        if isinstance(level, bool):
            return exp.true() if level else exp.false()
        return number(level) if isinstance(level, float) else exp.Literal.number(str(level))

    def least(self, values: Sequence[exp.Expr]) -> exp.Expr:
        """The smallest of values, none of them missing; some dialects limit the number of arguments."""
        while len(values) > 1:
            values = [self._least(values[i : i + 50]) for i in range(0, len(values), 50)]
        return values[0]

    def _least(self, values: Sequence[exp.Expr]) -> exp.Expr:
        if len(values) == 1:
            return values[0]
        if self.name == "sqlite":
            return exp.Anonymous(this="MIN", expressions=list(values))
        return exp.Anonymous(this="LEAST", expressions=list(values))

    def weight(self, excess: exp.Expr) -> exp.Expr:
        """exp(-excess), 0 where it is less than any number."""
        return case(
            [
                (
                    exp.LT(this=excess, expression=number(_UNDERFLOW)),
                    exp.Exp(this=exp.Neg(this=exp.paren(excess.copy()))),
                )
            ],
            number(0.0),
        )

    def floor(self, value: exp.Expr) -> exp.Expr:
        """The largest whole number that does not exceed a value."""
        if self.name != "sqlite":
            return exp.Floor(this=value)
        # not every build of SQLite has FLOOR
        whole = exp.cast(value, exp.DataType.Type.BIGINT)
        return exp.paren(
            exp.Sub(
                this=whole,
                expression=exp.paren(exp.GT(this=whole.copy(), expression=exp.paren(value.copy()))),
            )
        )

    def residue(self, value: exp.Expr, period: float) -> exp.Expr:
        """A value modulo a period."""
        periods = self.floor(exp.Div(this=value.copy(), expression=number(period)))
        return exp.paren(exp.Sub(this=value, expression=product(periods, number(period))))

    def days(self, cell: exp.Expr) -> exp.Expr:
        """A date, a moment, its ISO text, or a number of days, as days since 1970-01-01."""
        if self.name == "sqlite":
            julian = exp.Anonymous(this="JULIANDAY", expressions=[cell.copy()])
            kind = exp.Anonymous(this="TYPEOF", expressions=[cell.copy()])
            is_text = exp.EQ(this=kind, expression=exp.Literal.string("text"))
            return case([(is_text, exp.Sub(this=julian, expression=number(2440587.5)))], cell)
        text = exp.cast(
            cell, "nvarchar(64)" if self.name == "tsql" else exp.DataType.Type.TEXT, dialect=self.name
        )
        if self.name in ("postgres", "mysql"):
            like_number = exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(_NUMBER))
            moment: exp.Expr = exp.cast(text.copy(), exp.DataType.Type.TIMESTAMP)
            return case(
                [(like_number, exp.cast(text, exp.DataType.Type.DOUBLE))], self._days_of_moment(moment)
            )
        moment = self._tried(text, "timestamptz" if self.name == "bigquery" else "timestamp")
        return with_fallback(self._tried(text, "double"), self._days_of_moment(moment))

    def _tried(self, text: exp.Expr, to: str) -> exp.Expr:
        """A text as another type, NULL where that fails."""
        if self.name == "spark":  # sqlglot writes a CAST, which is an error in ANSI mode
            return formula(f"TRY_CAST({self.text(text)} AS {to.upper()})")
        return exp.TryCast(this=text.copy(), to=exp.DataType.build(to))

    def _days_of_moment(self, moment: exp.Expr) -> exp.Expr:
        epoch = exp.Literal.string("1970-01-01")
        if self.name in ("mysql", "snowflake", "tsql"):
            between = "TIMESTAMPDIFF" if self.name != "tsql" else "DATEDIFF_BIG"
            micros = exp.Anonymous(this=between, expressions=[exp.var("MICROSECOND"), epoch, moment])
        elif self.name in ("bigquery", "spark"):
            micros = exp.Anonymous(this="UNIX_MICROS", expressions=[moment])
        else:
            seconds = exp.Extract(this=exp.var("EPOCH"), expression=moment)
            return exp.Div(this=exp.cast(seconds, exp.DataType.Type.DOUBLE), expression=number(86400.0))
        return exp.Div(this=exp.cast(micros, exp.DataType.Type.DOUBLE), expression=number(86400e6))
