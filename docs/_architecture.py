"""The picture of docs/architecture.md: ``python docs/_architecture.py`` writes docs/_static/data-flow.svg."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).resolve().parent / "_static" / "data-flow.svg"
WIDTH, HEIGHT = 800, 800  # units of the picture: pixels at its natural size
LINE = 17  # from one line of text to the next


class Box(NamedTuple):
    """A part of the package: where it is drawn, its title, the modules, and what it holds or does."""

    x: int
    y: int
    width: int
    title: str
    modules: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    fill: str = "#ffffff"

    @property
    def height(self) -> int:
        return 16 + LINE * (1 + len(self.modules) + len(self.says))


INPUT, TABLE, SEARCH, ROWS, RESULT = "#f3f4f6", "#dbeafe", "#fef3c7", "#dcfce7", "#ede9fe"
BOXES = {
    "memory": Box(20, 16, 230, "frame, dict, array", says=("in memory",), fill=INPUT),
    "files": Box(285, 16, 230, "Parquet and Arrow files", says=("read in batches",), fill=INPUT),
    "parts": Box(550, 16, 230, "Dask collections", says=("rows stay on workers",), fill=INPUT),
    "door": Box(
        20, 102, 760, "one door: where are the rows?", ("craftc.distributed.open_input",), fill=INPUT
    ),
    "mixed": Box(
        20,
        190,
        495,
        "MixedTable: numbers (n, p), codes (n, q), schema",
        ("craftc.table.kinds", "craftc.table.mixed_table"),
        ("arrays, or memory maps of scratch files",),
        TABLE,
    ),
    "partitions": Box(
        550,
        190,
        230,
        "PartitionedTable",
        ("craftc.distributed.engine",),
        ("questions to all parts,", "sums of their answers"),
        TABLE,
    ),
    "encoding": Box(
        20,
        312,
        760,
        "encoding: levels (CRAFT); numbers, frequent values, ranks (PaperCRAFT)",
        ("craftc.table.levels", "craftc.table.numeric_encoding"),
        fill=TABLE,
    ),
    "search": Box(
        20,
        400,
        360,
        "search: decides by sums, sees no row",
        ("craftc.craft.search.automatic", "craftc.craft.search.merges", "craftc.craft.search.splits"),
        ("starts, merges, splits, covariances", "prices in nats: craftc.craft.background"),
        SEARCH,
    ),
    "rows": Box(
        440,
        400,
        340,
        "row store: labels and integer sums",
        ("craftc.craft.rows.local", "craftc.craft.rows.partitioned"),
        ("LocalRows: one kernel call a pass", "PartitionedRows: one message a pass"),
        ROWS,
    ),
    "kernels": Box(440, 518, 340, "kernels (Cython, C)", ("craftc._kernels",), fill=ROWS),
    "fitted": Box(
        20,
        594,
        760,
        "FittedClusters: sums, masks, merge path, encoding; plain data",
        ("craftc.craft.fitted",),
        ("predict, explain, summary, cut and at follow from it",),
        RESULT,
    ),
    "describe": Box(
        20,
        712,
        365,
        "facts, names, words, numbers",
        ("craftc.describe",),
        ("for summary, report, plots, command line",),
        RESULT,
    ),
    "saved": Box(
        415, 712, 365, "model file: arrays and JSON", ("craftc.saved",), ("save_model, load_model",), RESULT
    ),
}
#: From, to, and where.
DOWN = [
    ("memory", "door", 135),
    ("files", "door", 400),
    ("parts", "door", 665),
    ("door", "mixed", 267),
    ("door", "partitions", 665),
    ("mixed", "encoding", 267),
    ("partitions", "encoding", 665),
    ("encoding", "rows", 610),
    ("rows", "kernels", 610),
    ("search", "fitted", 200),
    ("fitted", "describe", 200),
    ("fitted", "saved", 600),
]


def box(it: Box) -> str:
    """A rectangle with its text."""
    lines = [f'<text x="{it.x + 12}" y="{it.y + 22}" class="title">{escape(it.title)}</text>']
    for i, (text, kind) in enumerate(
        [(name, "module") for name in it.modules] + [(each, "says") for each in it.says]
    ):
        lines.append(
            f'<text x="{it.x + 12}" y="{it.y + 22 + LINE * (i + 1)}" class="{kind}">{escape(text)}</text>'
        )
    frame = f'<rect x="{it.x}" y="{it.y}" width="{it.width}" height="{it.height}" rx="6" fill="{it.fill}"/>'
    return "\n".join([frame, *lines])


def arrow(x: float, y: float, x2: float, y2: float, both: bool = False) -> str:
    """A line with a head at its end, or at both ends."""
    start = ' marker-start="url(#head)"' if both else ""
    return f'<line x1="{x:g}" y1="{y:g}" x2="{x2:g}" y2="{y2:g}" marker-end="url(#head)"{start}/>'


def picture() -> str:
    """The SVG."""
    arrows = [
        arrow(x, BOXES[above].y + BOXES[above].height, x, BOXES[below].y - 2) for above, below, x in DOWN
    ]
    search, rows = BOXES["search"], BOXES["rows"]
    arrows.append(arrow(search.x + search.width + 3, 440, rows.x - 3, 440, both=True))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size}>
<title>How the rows of a table become clusters</title>
<style>
rect {{ stroke: #4b5563; stroke-width: 1 }}
line {{ stroke: #4b5563; stroke-width: 1.5 }}
text {{ font-family: system-ui, "DejaVu Sans", sans-serif; fill: #111827 }}
.title {{ font-size: 15px; font-weight: 600 }}
.module {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px }}
.says {{ font-size: 13px; fill: #374151 }}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto-start-reverse"><path d="M 0 0 L 8 4 L 0 8 z" fill="#4b5563"/></marker></defs>
<rect x="0" y="0" width="{WIDTH}" height="{HEIGHT}" fill="#ffffff" style="stroke: none"/>
{chr(10).join(box(each) for each in BOXES.values())}
{chr(10).join(arrows)}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
