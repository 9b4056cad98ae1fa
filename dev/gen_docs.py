"""Write the reference pages under docs/ from the tables in the code: gen_docs.py [--check].

`--check` writes nothing and exits 1 if a page differs from what the tables say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from binlake.format.event_types import EVENT_TYPES
from binlake.spark.options import SPARK_OPTIONS, STREAM_OPTIONS
from binlake.values.option_forms import FORMS
from binlake.values.options import READ_OPTIONS, OptionSpec, parse_bytes

DOCS = Path(__file__).parent.parent / "docs"


def _default(spec: OptionSpec) -> str:
    if spec.default is None or spec.default == ():
        return ""
    if isinstance(spec.default, bool):
        return "yes" if spec.default else "no"
    if spec.parse is parse_bytes:
        return f"{spec.default >> 20} MB"
    return f"`{spec.default}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")


def _options_table(specs: Sequence[OptionSpec]) -> Iterator[str]:
    yield "| option | value | meaning | default | where |"
    yield "| --- | --- | --- | --- | --- |"
    for spec in specs:
        value = " \\| ".join(f"`{c}`" for c in spec.choices) or _escaped(spec.metavar)
        meaning = _escaped(spec.help) + ("; repeatable" if spec.repeatable else "")
        where = ", ".join(spec.surfaces)
        yield f"| `{spec.name}` | {value} | {meaning} | {_default(spec)} | {where} |"


def _forms_table() -> Iterator[str]:
    yield "| value | meaning | for example |"
    yield "| --- | --- | --- |"
    for name, form in FORMS.items():
        examples = ", ".join(f"`{example}`" for example in form.examples)
        yield f"| {_escaped(name)} | {_escaped(form.meaning)} | {examples} |"


def options_page() -> str:
    """docs/options.md."""
    lines = [
        "# Options",
        "",
        "Made from `binlake.values.options.READ_OPTIONS`, `binlake.spark.options.SPARK_OPTIONS` and",
        "`binlake.values.option_forms.FORMS` by `dev/gen_docs.py`.",
        "",
        "## Of every read",
        "",
        "The same options exist as command line flags (`--exclude-table`), as options of the Spark data",
        'source (`.option("exclude_table", …)`, any case, `-` or `_`) and as keywords of `binlake.open`',
        "(`exclude_table=…`). A repeatable one also takes several values separated by commas. Where no",
        "default is given, the option does nothing unless it is set.",
        "",
        *_options_table(READ_OPTIONS),
        "",
        "What the policies mean for values is in [values.md](values.md).",
        "",
        "## Only of the Spark data source",
        "",
        "[spark.md](spark.md) says more.",
        "",
        *_options_table(SPARK_OPTIONS),
        "",
        "## Only of Spark streams",
        "",
        "[streaming.md](streaming.md) says more.",
        "",
        *_options_table(STREAM_OPTIONS),
        "",
        "## How values are written",
        "",
        *_forms_table(),
    ]
    return "\n".join(lines) + "\n"


def events_page() -> str:
    """docs/event-types.md."""
    lines = [
        "# Event types",
        "",
        "Made from `binlake.format.event_types.EVENT_TYPES` by `dev/gen_docs.py`. A type that is not",
        "in this list is still read: it is named `UNKNOWN_EVENT_<code>`, keeps its bytes and is counted.",
        "",
        "| code | name | server | since | role |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines.extend(
        f"| {t.code} | `{t.name}` | {t.flavour} | {t.since} | {t.role.name.lower()} |"
        for t in EVENT_TYPES.values()
    )
    return "\n".join(lines) + "\n"


PAGES = {"options.md": options_page, "event-types.md": events_page}


def main() -> int:
    """Write or check every page."""
    stale = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"docs/{', docs/'.join(stale)}: not what the tables say; run dev/gen_docs.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
