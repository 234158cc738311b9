"""The directive ``command``: what a command of the command line says of itself, at build time."""

from __future__ import annotations

from functools import partial
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def usage(path: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Return usage, help text and the arguments and options of a command, as it tells them.

    Parameters
    ----------
    path : str
        The command as one types it: "grayzone", or "grayzone train".

    Returns
    -------
    usage : str
        The line after "Usage:".
    text : str
        What the command does.
    options : list of (str, str)
        How an argument or option is written, and its help.
    """
    from typer.main import get_command

    from grayzone.cli._app import app

    name, *rest = path.split()
    command: Any = get_command(app)
    context = command.make_context(name, [], resilient_parsing=True)
    for part in rest:
        found = command.get_command(context, part)
        if found is None:
            raise ValueError(f"{path!r} is no command of grayzone.")
        command = found
        context = command.make_context(part, [], parent=context, resilient_parsing=True)
    options = [record for p in command.get_params(context) if (record := _told(p, context))]
    if hasattr(command, "list_commands"):
        named = ((n, command.get_command(context, n)) for n in command.list_commands(context))
        options += [(n, c.get_short_help_str(limit=200)) for n, c in named]
    return " ".join(command.collect_usage_pieces(context)), command.help or "", options


def _told(parameter: Any, context: Any) -> tuple[str, str] | None:
    """How a parameter is written, and its help; an argument's record is its own."""
    record = parameter.get_help_record(context)
    return record and (record[0], " ".join(record[1].split()))


def _paragraph(text: str) -> nodes.paragraph:
    """A paragraph; what stands between backticks is code."""
    parts = enumerate(" ".join(text.split()).split("`"))
    kinds = (nodes.Text, partial(nodes.literal, ""))
    return nodes.paragraph("", "", *(kinds[k % 2](part) for k, part in parts if part))


class Command(SphinxDirective):
    """Show a command: usage, what it does, and a definition list of its options."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the nodes."""
        path = self.arguments[0]
        line, text, options = usage(path)
        shown: list[nodes.Node] = [nodes.literal_block("", f"{path} {line}", language="none")]
        paragraphs = [part for part in text.split("\n\n") if part.strip()]
        shown += [_paragraph(part) for part in paragraphs]
        items = [
            nodes.definition_list_item(
                "",
                nodes.term("", "", nodes.literal("", written)),
                nodes.definition("", _paragraph(said)),
            )
            for written, said in options
        ]
        return [*shown, nodes.definition_list("", *items)]


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
