"""Write the reference pages and tables under docs/ from the tables in the code: gen_docs.py [--check].

`--check` writes nothing and exits 1 if a page differs from what the tables say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from binlake.config.keys import (
    ARCHIVE_KEYS,
    CONNECTION_KEYS,
    LISTENER_KEYS,
    METRICS_KEYS,
    SERVE_KEYS,
    SERVER_KEYS,
)
from binlake.config.toml_file import Key
from binlake.format.column_types import COLUMN_TYPES
from binlake.format.event_types import EVENT_TYPES
from binlake.spark.options import SPARK_OPTIONS, STREAM_OPTIONS
from binlake.values.option_spec import OptionSpec
from binlake.values.options import READ_OPTIONS
from dev.alterations import (
    APPLIED,
    COPIED,
    PRIMARY_KEY,
    QUARANTINED,
    RENAMED,
    RETYPED,
    Alteration,
)
from dev.docs.login_methods import rules_table
from dev.docs.option_forms import FORMS
from dev.known_faults import KNOWN_FAULTS
from dev.tested import (
    COLUMN_PROPERTIES,
    EVENT_PROPERTIES,
    column_properties,
    golden_use,
    types_by_hand,
)

DOCS = Path(__file__).parent.parent / "docs"


def _default(spec: OptionSpec) -> str:
    if spec.default is None or spec.default == ():
        return ""
    if isinstance(spec.default, bool):
        return "yes" if spec.default else "no"
    if spec.metavar == "SIZE":
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
        "On this page you can look up every option that selects, reads or shows row changes.",
        "",
        "```console",
        "$ binlake rows demo/mysql-9.7 --exclude-table shop.order_lines --op delete -n 1",
        '{"op":"delete","database":"shop","table":"orders",…',
        "```",
        "",
        "```python",
        'binlake.open("demo/mysql-9.7", exclude_table="shop.order_lines", op="delete")',
        "```",
        "",
        "`dev/gen_docs.py` writes this page from the tables in the code.",
        "",
        "## Options of every read",
        "",
        "You can give an option as a command line flag (`--exclude-table`), as an option of the Spark data",
        'source (`.option("exclude_table", …)`, any case, `-` or `_`) and as a keyword of `binlake.open`',
        "(`exclude_table=…`). Repeat a repeatable option, or give it several values separated by commas. An option",
        "without a default does nothing unless you set it.",
        "",
        *_options_table(READ_OPTIONS),
        "",
        "[values.md](values.md) describes the effects of the policies on values.",
        "",
        "## Options of the Spark data source only",
        "",
        "[spark.md](spark.md) describes the data source.",
        "",
        *_options_table(SPARK_OPTIONS),
        "",
        "## Options of Spark streams only",
        "",
        "[streaming.md](streaming.md) describes streams.",
        "",
        *_options_table(STREAM_OPTIONS),
        "",
        "## How values are written",
        "",
        *_forms_table(),
    ]
    return "\n".join(lines) + "\n"


def _cases(cases: Sequence[str]) -> str:
    if not cases:
        return ""
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return f"`{cases[0]}`{more}"


def _events_table() -> Iterator[str]:
    golden, by_hand = golden_use().events, types_by_hand()
    yield "| code | name | server | since | role | golden logs | by hand |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for kind in EVENT_TYPES.values():
        samples = ", ".join(f"`{name}`" for name in by_hand.get(kind.code, ()))
        yield (
            f"| {kind.code} | `{kind.name}` | {kind.flavour} | {kind.since} | {kind.role.name.lower()} |"
            f" {_cases(golden.get(kind.code, ()))} | {samples} |"
        )


def _columns_table() -> Iterator[str]:
    golden, made_up = golden_use().columns, column_properties()
    yield "| code | name | golden logs | any values |"
    yield "| --- | --- | --- | --- |"
    for kind in COLUMN_TYPES.values():
        any_values = "yes" if kind.code in made_up else ""
        cases = _cases(golden.get(kind.code, ()))
        yield f"| {kind.code} | `{kind.name}` | {cases} | {any_values} |"


def events_page() -> str:
    """docs/event-types.md."""
    lines = [
        "# Event types",
        "",
        "On this page you can look up which event and column types binlake reads, and how the tests check each of them.",
        "",
        "```console",
        "$ binlake inspect demo/mariadb-11.8 -n 2",
        "…FORMAT_DESCRIPTION_EVENT…",
        "…GTID_LIST_EVENT…",
        "```",
        "",
        "`dev/gen_docs.py` writes this page from `binlake.format.event_types.EVENT_TYPES` and from the tests. binlake also reads",
        "events of other types: it names them `UNKNOWN_EVENT_<code>`, keeps their bytes and counts them.",
        "",
        "The columns and the tests behind them are:",
        "",
        "- *golden logs*: the logs under `tests/golden/` that contain the type. Real servers wrote them. The tests compare these logs",
        "  with the servers' SELECT and list of events (`tests/truth/test_golden.py`) and with the servers' tools",
        "  (`tests/server/test_tool_events.py`, which also reads a corpus of more logs), and encode them again",
        "  (`tests/truth/test_reencode.py`).",
        "- *by hand*: samples in `tests/support/logs/event_samples.py`, written from the description of the format.",
        f"- `{EVENT_PROPERTIES}` makes events with random fields for every type that has fields.",
        "",
        "[fidelity.md](fidelity.md) contains the numbers.",
        "",
        *_events_table(),
        "",
        "## Column types",
        "",
        "These are the types of TABLE_MAP, from `binlake.format.column_types.COLUMN_TYPES`. `tests/server/test_matrix.py`",
        f'compares all types of the servers. *Any values* is "yes" if `{COLUMN_PROPERTIES}` tests the type with random values and bytes.',
        "",
        "A type without an entry never appears in logs of current servers. MySQL 4.1 was the last version with type 0, and a log does",
        "not contain its width. Type 20 exists in indexes only. Servers use 243 and 244 internally.",
        "",
        *_columns_table(),
    ]
    return "\n".join(lines) + "\n"


def live_page() -> str:
    """docs/live.md, with the table of login methods inserted; the rest is written by hand."""
    return _inserted("live.md", "login rules", ["", *rules_table(), ""])


def _keys_table(keys: Mapping[str, Key]) -> Iterator[str]:
    yield "| key | meaning | default |"
    yield "| --- | --- | --- |"
    for name, key in keys.items():
        yield f"| `{name}` | {_escaped(key.meaning)} | {key.default} |"


def configuration_page() -> str:
    """docs/configuration.md, with the tables of keys inserted; the rest is written by hand."""
    lines = [
        "", "`[archive]`, for all servers:", "", *_keys_table(METRICS_KEYS),
        "", "`[archive]` for all servers, and `[archive.servers.NAME]` for one:", "",
        *_keys_table(ARCHIVE_KEYS),
        "", "`[archive.servers.NAME]`:", "", *_keys_table(SERVER_KEYS),
        "", "`[archive.connection]` for all servers, and `[archive.servers.NAME.connection]` for one, as in",
        "[live.md](live.md#urls):", "", *_keys_table(CONNECTION_KEYS),
        "", "`[serve]` for all listeners, and `[serve.listeners.NAME]` for one:", "",
        *_keys_table(SERVE_KEYS),
        "", "`[serve.listeners.NAME]`:", "", *_keys_table(LISTENER_KEYS), "",
    ]  # fmt: skip
    return _inserted("configuration.md", "keys", lines)


def _inserted(page: str, what: str, lines: Sequence[str]) -> str:
    """A page with lines in place of what stands between its two comments."""
    text = (DOCS / page).read_text()
    begin, end = f"<!-- {what}: made by dev/gen_docs.py -->\n", f"<!-- end of {what} -->"
    before, _, rest = text.partition(begin)
    return before + begin + "\n".join([*lines, end]) + rest.partition(end)[2]


#: The results with the decoders and archives, and with exports and the Python decoder.
_DECODING = "2026-11-26-decoders-archive-ask"
_OTHERS = "2026-11-26-shapes-memory-python-spark"
_MIRROR = "2026-11-29-mirror"

#: What the comparison shows: the results, the part of the benchmark, the job, binlake's measurement, the other tool's, and who that is.
_DUELS = (
    (_DECODING, "decoders", "decode a log", "decode", "mysqlbinlog -vv", "`mysqlbinlog -vv` to text"),
    (_DECODING, "decoders", "decode a log", "decode", "java peer", "mysql-binlog-connector-java"),
    (
        _DECODING, "decoders", "decode a log", "decode", "java peer, JSON text",
        "mysql-binlog-connector-java, with JSON converted to text, as binlake does",
    ),
    (
        _OTHERS, "spark", "write Parquet, with Spark", "export", "spark write.parquet",
        "`df.write.parquet` of the same rows",
    ),
    (
        _OTHERS, "spark", "write Parquet, without Spark", "export --engine local", "spark write.parquet",
        "`df.write.parquet` of the same rows",
    ),
    (
        _DECODING, "archive", "copy a log from a server", "binlake mysqlbinlog --raw",
        "mysqlbinlog --raw", "`mysqlbinlog --raw`",
    ),
    (
        _DECODING, "archive", "archive a log from a server", "archive",
        "mysqlbinlog --raw", "`mysqlbinlog --raw`",
    ),
    (
        _DECODING, "archive", "archive it and write indexes", "archive, indexes",
        "mysqlbinlog --raw", "`mysqlbinlog --raw`, which writes no indexes",
    ),
)  # fmt: skip


def _bench(*parts: str) -> str:
    """The command that measures parts of the benchmark again."""
    return f'make bench ARGS="{" ".join(f"--only {part}" for part in parts)}"'


def _results(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (DOCS.parent / "benchmarks" / "results" / f"{name}.json").read_text()
    )
    return found


def _measured(name: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in _results(name)["measured"]}


def _machine(name: str) -> str:
    machine = _results(name)["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB"


def _duels_table() -> Iterator[str]:
    yield "| job | binlake, s | other tool, s | ratio | other tool | command |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for results, part, job, ours, theirs, who in _DUELS:
        measured = _measured(results)
        fast, slow = measured[ours]["seconds"], measured[theirs]["seconds"]
        yield (
            f"| {job} | {fast:.2f} | {slow:.2f} | {slow / fast:.2f} | {who} | `{_bench(part)}` |"
        )


#: The rounds of a mirror and what they are compared with: binlake's measurement, the other tool's, and who that is.
_APPLIED = (
    ("rounds of 1 M", "Debezium engine into nothing", "Debezium's engine, which reads the same changes and discards them"),
    ("rounds of 100 k", "MERGE of 100 k", "Iceberg's `MERGE INTO` of 100,000 changes in Spark"),
)  # fmt: skip


def _applied_table() -> Iterator[str]:
    yield "| changes applied to an Iceberg table | binlake, changes/s | other tool, changes/s | ratio | other tool | command |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    measured = _measured(_MIRROR)
    command = 'make bench ARGS="--only mirror --rows 10000000 --large-rounds 6 --small-rounds 100 --runs 1"'
    for ours, theirs, who in _APPLIED:
        for key in ("int", "uuid"):
            table = f"{key}, 10 M rows"
            fast, slow = (
                measured[f"{table}: {name}"]["output"]["changes_per_second"]
                for name in (ours, theirs)
            )
            yield f"| {key} keys, {ours} | {fast:,} | {slow:,} | {fast / slow:.1f} | {who} | `{command}` |"


def comparison_page() -> str:
    """docs/comparison.md, with the measurements inserted; the rest is written by hand."""
    rate = _measured(_DECODING)
    images = rate["java peer"]["output"]["images"] / rate["decode"]["seconds"]
    python = _measured(_OTHERS)["python-mysql-replication"]["output"]["images_per_second"]
    lines = [
        "",
        f"Machine: {_machine(_DECODING)}. Log: 301 MB, one table of 13",
        "columns, one of them JSON. Times are medians of wall-clock seconds. A ratio above 1 means that binlake is faster.",
        "",
        *_duels_table(),
        "",
        f"python-mysql-replication decodes {python:,.0f} row images per second, and binlake {images:,.0f}",
        f"(`{_bench('decoders', 'python')}`).",
        "",
        f"The following changes were applied on another machine: {_machine(_MIRROR)}.",
        "",
        *_applied_table(),
        "",
    ]
    return _inserted("comparison.md", "measurements", lines)


def faults_page() -> str:
    """docs/mirror-faults.md."""
    lines = [
        "# Known faults and their tests",
        "",
        "On this page you can see which faults users have reported of other programs that mirror databases into lakes, and which",
        "tests of binlake reproduce each fault. Most tests run with real servers and compare the lake with the server. To run one of them:",
        "",
        "    .venv/bin/python -m pytest tests/mirror/test_known_faults.py -k test_a_purged_log",
        "",
        "Continuous integration (`.ci/run`) runs `tests/unit` and the tests of `tests/mirror` that write no lake. It also runs `make test-mirror`, which",
        "kills mirrors 26 times, and the examples of the mirror's pages. It does not run the other tests of `tests/mirror`, which are most of those in",
        "the table: we run them by hand with `make test-lakes`. We also run the long proofs by hand: `make mirror-random`, `make mirror-soak`,",
        "`make mirror-verify` and `make mirror-cluster`.",
        "",
        "`dev/gen_docs.py` writes this page from `dev/known_faults.py`.",
        "",
        "| Fault | Reported as | Tests |",
        "| --- | --- | --- |",
    ]
    for fault in KNOWN_FAULTS:
        tests = ", ".join(_test_link(test) for test in fault.tests)
        lines.append(f"| {fault.what} | {', '.join(fault.reports)} | {tests} |")
    return "\n".join(lines) + "\n"


def _test_link(test: str) -> str:
    file, _, function = test.partition("::")
    return f"[`{function}`](../tests/{file})"


def alter_page() -> str:
    """docs/mirror-alter.md."""
    lines = [
        "# ALTER statements and their outcomes",
        "",
        "On this page you can look up what a [mirror](mirror-schema-changes.md#schema-changes) does when it reads an ALTER statement in the log. A test runs",
        "each of these statements on the real servers that know it while a mirror follows the table, and then compares the lake with the server:",
        "",
        '    .venv/bin/python -m pytest tests/mirror/test_schema_changes.py -k "follows or refused"',
        "",
        "`dev/gen_docs.py` writes this page from `dev/alterations.py`, which the test reads. The table `t` has the column `id INT PRIMARY KEY`,",
        "unless another `id` is listed, and the listed columns. The mirror does not follow tables of the database `alters2`.",
        "",
        "## Applied, or copied again",
        "",
        "| Columns | Statement | Outcome |",
        "| --- | --- | --- |",
        *(_alteration(one, one.effect) for one in (*APPLIED.values(), *COPIED.values())),
        "",
        "## Quarantined",
        "",
        "The mirror quarantines the table, and continues with the others. `binlake mirror status` shows the statement and the reason. With",
        "`--on-alter resync`, `text` or `new-column` it copies the table again. A table with the note *not copied* stays quarantined: binlake does not",
        "mirror such a table, an option names the dropped column, or the table may have another name.",
        "",
        "| Columns | Statement | The reason contains |",
        "| --- | --- | --- |",
        *(
            _alteration(one, one.reason + "; *not copied*" * one.is_final)
            for one in QUARANTINED.values()
        ),
        "",
        "## Changes of type",
        "",
        "After these changes, the column of the lake needs another type. It becomes text with `--on-alter text`, and",
        "a new column with `--on-alter new-column`. [Mirror](mirror-schema-changes.md#changes-of-type) explains both. A test makes these changes:",
        "",
        "    .venv/bin/python -m pytest tests/mirror/ddl/test_type_policies.py",
        "",
        "| Type | Type after `MODIFY` |",
        "| --- | --- |",
        *(f"| `{one.before}` | `{one.after}` |" for one in RETYPED.values()),
        "",
        "## Tables that swap names",
        "",
        "The mirror follows the tables `a`, `b` and `c`, and `spare` while it exists. It does not follow `x` and `tmp`. When the mirror",
        "copies a table again, it reads the rows that the server now has under that name. A",
        "[tag](mirror-schema-changes.md#renamed-and-dropped-tables) `before-rename-…` keeps the earlier rows. A test runs these",
        "statements in all modes, and with changes before and after them:",
        "",
        "    .venv/bin/python -m pytest tests/mirror/ddl/test_circles_of_renames.py",
        "",
        "| Statements | Outcome |",
        "| --- | --- |",
        *(
            f"| {'; '.join(f'`{sql}`' for sql in one.statements)} | {one.effect} |"
            for one in RENAMED.values()
        ),
    ]
    return "\n".join(lines) + "\n"


def _alteration(one: Alteration, outcome: str) -> str:
    columns, partition, by = one.columns.partition(") PARTITION BY ")
    columns = columns if one.key == PRIMARY_KEY else f"{one.key}, {columns}"
    shown = f"`{columns}`" + (f", partitioned by `{by})`" if partition else "")
    shown += f"; the lake table is partitioned by `{one.partition}`" if one.partition else ""
    # a code span with a backtick has two of them around it
    ticks = "``" if "`" in one.statement else "`"
    # a space on each side, which Markdown removes, separates them from a backtick at the end
    statement = f" {one.statement} " if one.statement.endswith("`") else one.statement
    return f"| {shown} | {ticks}{statement}{ticks} | {outcome} |"


PAGES = {
    "comparison.md": comparison_page,
    "configuration.md": configuration_page,
    "mirror-alter.md": alter_page,
    "mirror-faults.md": faults_page,
    "options.md": options_page,
    "event-types.md": events_page,
    "live.md": live_page,
}


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
