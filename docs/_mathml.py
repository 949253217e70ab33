"""Renders mathematics as MathML, which browsers display without scripts or external files."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_SPACE = '<mspace width="0.17em"/>'
_APPLIED = re.compile(
    r"<mo>&ApplyFunction;</mo>(?!\s*(?:<mrow>\s*)?<mo)"
)  # a function before an argument without brackets
_FACTOR = re.compile(
    r"(</(?:mi|mn|mfrac|mrow|msub|msup|msubsup)>\s*)(<mi>\w+</mi>\s*<mo>&ApplyFunction;)"
)  # a factor before a function
_BAR = re.compile(
    r'<mo(?: class="math(?:open|close)")?>([|‖])</mo>'
)  # of a norm: must not stretch to the height of an adjacent sum

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Element, block: bool) -> str:
    """Convert a formula to MathML.

    A formula that cannot be converted gives a warning and is shown as source.
    """
    tex = node.astext()
    try:
        mathml = _FACTOR.sub(rf"\1{_SPACE}\2", tex2mathml(tex, as_block=block))
        mathml = _APPLIED.sub(rf"\g<0>{_SPACE}", mathml)
        return _BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>', mathml)
    except MathError as error:
        logger.warning("a formula cannot be converted to MathML: %s", error, location=node)
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
