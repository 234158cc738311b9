"""Formulas as MathML, made when the site is built: no script, nothing from other hosts."""

import html
import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def converted(node: nodes.Node, block: bool) -> str:
    """Return a formula as MathML; one that cannot be read is a warning, and stays as it is."""
    # Sizes of brackets are the browser's business.
    formula = re.sub(r"\\[Bb]ig(?![lr])|\\textstyle", "", node.astext())
    if block and r"\\" in formula and r"\begin" not in formula:
        formula = rf"\begin{{aligned}}{formula}\end{{aligned}}"
    try:
        made = tex2mathml(" ".join(formula.split()), as_block=block)
        # of two bars, one with an exponent, only the other would grow
        return re.sub(r"<mo>([|‖])</mo>", r'<mo stretchy="false">\1</mo>', made)
    except (AttributeError, MathError) as error:  # the first of a row's end outside of rows
        logger.warning("formula %r: %s", formula, error, location=node)
        return f"<code>{html.escape(formula)}</code>"


def inline(translator, node):
    """Write a formula in a line of text."""
    translator.body.append(converted(node, block=False))
    raise nodes.SkipNode


def block(translator, node):
    """Write a formula that stands alone; one that is too wide scrolls by itself."""
    translator.body.append(f'<div class="formula" tabindex="0">{converted(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, `html_math_renderer = "mathml"`."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
