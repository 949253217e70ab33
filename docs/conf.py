"""Sphinx configuration. Build: ``python -m sphinx -W --keep-going -b html docs build/docs``, in a checkout
where craftc can be imported.

The gallery and the API pages are written to docs/generated, which git ignores. The build needs no network:
mathematics is rendered as MathML (``_mathml.py``), and no page loads files from another server.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes

os.environ.setdefault("MPLBACKEND", "Agg")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

import _growth  # noqa: E402 (in this folder)
import _methods  # noqa: E402
import _performance  # noqa: E402

# ---- project ----

project = "craftc"
author = "The craftc developers"
copyright = author
try:
    release = metadata.version("craftc")
except metadata.PackageNotFoundError:  # a checkout built in place
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
version = release

# ---- pages ----

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "_mathml",
]
html_math_renderer = "mathml"
templates_path = ["_templates"]
exclude_patterns = [
    "generated/**/*.ipynb",
    "generated/**/*.py",
    "generated/performance.md",
    "generated/growth.md",
    "generated/gallery/GALLERY_HEADER.rst",
]
nitpicky = True
myst_enable_extensions = ["amsmath", "attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
highlight_language = "none"  # an indented block is a formula or program output
default_role = "code"  # single backticks in docstrings are names
pygments_style = "friendly"

autosummary_generate = True
autosummary_context = {"described": _methods.of_all()}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # the docstrings document types and shapes
numpydoc_show_class_members = False  # the template of the class pages lists them
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["generated/gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"tabletop",  # programs that need external data
    "within_subsection_order": "_gallery.InOrder",
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "download_all_examples": False,
    "min_reported_time": 10**6,  # times in the pages would make every build different
    "write_computation_times": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": "True",
    "doc_module": (),
    "backreferences_dir": None,
    "image_srcset": ["2x"],
}

_performance.write(ROOT / "benches" / "peers" / "README.md", HERE / "generated")
_growth.write(ROOT / "benches" / "growth.md", HERE / "generated")

# ---- theme ----

html_theme = "pydata_sphinx_theme"
html_title = f"craftc {release}"
html_static_path = ["_static"]
html_css_files = ["craftc.css"]
html_show_sourcelink = False
_methods_pages = re.findall(r"<([\w-]+)>", (HERE / "methods.md").read_text(encoding="utf-8"))
html_sidebars = {  # pages without a section
    page.stem: [] for page in HERE.glob("*.md") if page.stem not in ("methods", *_methods_pages)
}
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "craftc"},
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}


def strip_last_lines(app: Any, doctree: nodes.document) -> None:
    """Strip the empty last line of code blocks, which only doctest needs."""
    for node in doctree.findall(nodes.literal_block):
        text = node.astext().rstrip()
        if node.rawsource == node.astext():  # otherwise it is not a highlighted code block
            node.rawsource = text
            node.children = []
            node += nodes.Text(text)


def link_pages(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Make links of the pages that docstrings name as files of the checkout."""
    lines[:] = [re.sub(r"\bdocs/([\w-]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("doctree-read", strip_last_lines)
    app.connect("autodoc-process-docstring", link_pages)
