"""Mathematics as MathML, which browsers show by themselves: no script, and nothing that a page must fetch from elsewhere."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_SPACE = '<mspace width="0.17em"/>'
_APPLIED = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*(?:<mrow>\s*)?<mo)")  # a function before an argument without brackets
_FACTOR = re.compile(r"(</(?:mi|mn|mfrac|mrow|msub|msup|msubsup)>\s*)(<mi>\w+</mi>\s*<mo>&ApplyFunction;)")  # a factor before a function
_BAR = re.compile(r'<mo(?: class="math(?:open|close)")?>([|‖])</mo>')  # of a norm: it is not to grow with a sum beside it

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, block: bool) -> str:
    """A formula as MathML; one that cannot be read is a warning and is shown as it was written."""
    tex = node.astext()
    try:
        mathml = _FACTOR.sub(rf"\1{_SPACE}\2", tex2mathml(tex, as_block=block))
        mathml = _APPLIED.sub(rf"\g<0>{_SPACE}", mathml)
        return _BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', mathml)
    except MathError as error:
        logger.warning("a formula cannot be told in MathML: %s", error, location=node)
        return f"<code>{escape(tex)}</code>"


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math-block">{_mathml(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
