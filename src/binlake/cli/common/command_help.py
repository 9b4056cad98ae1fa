"""`--help` of a command: its options in groups, its examples unchanged.

Click folds paragraphs and lists options in one run. A folded example cannot be copied, and a list
of forty options is hard to read.
"""

from __future__ import annotations

import inspect
import re

import click

_EXAMPLES = re.compile(r"^Examples:\s*\n", re.MULTILINE)


# A word that begins with a capital letter as well: not a name such as server_id, not a value such as `off:`.
_PLAIN_WORD = re.compile(r"[a-z][a-z-]*[, ]")


def sentence(text: str) -> str:
    """Return a help text that other surfaces show as a fragment as a sentence."""
    if _PLAIN_WORD.match(text):
        text = text[0].upper() + text[1:]
    is_sentence = " " in text and not text.endswith(".")
    return f"{text}." if is_sentence else text


def _format_text(text: str, formatter: click.HelpFormatter) -> None:
    """A docstring: paragraphs are folded, the text after `Examples:` is not."""
    prose, *examples = _EXAMPLES.split(inspect.cleandoc(text), maxsplit=1)
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(prose.strip())
    for block in examples:
        formatter.write("\nExamples:\n")
        for line in filter(None, map(str.strip, block.splitlines())):
            formatter.write(f"  {line}\n")


class HelpCommand(click.Command):
    """A command whose options are listed by their `panel`, those without one first."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the docstring."""
        _format_text(self.help or "", formatter)

    def format_arguments(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: `format_options` lists the arguments, which click does only from 8.5 on."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            shown = parameter.get_help_record(ctx)
            if shown is None:
                continue
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "panel", None) or kind
            sections.setdefault(panel, []).append(shown)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class HelpGroup(click.Group):
    """A command that has commands of its own, listed in the order in which they are added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises click.UsageError, with a similar name if there is one."""
        if self.get_command(ctx, args[0]) is None:
            from binlake.values.similar_names import did_you_mean  # few runs need it

            question = did_you_mean(args[0], self.list_commands(ctx))
            if question:
                ctx.fail(f"No such command {args[0]!r}; {question}")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text."""
        _format_text(self.help or "", formatter)
