"""`binlake stats --statements`: every statement that the logs contain as text, or their digests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from binlake.cli.common.lines import show
from binlake.cli.common.terminal import (
    fail_if_lost,
    note,
    reading,
    say_nothing_found,
    say_result,
)
from binlake.cli.stats.text_form import digest_line, statement_line
from binlake.errors import OptionError
from binlake.stream.sql.statements import CONTROL, KIND_WORDS
from binlake.stream.views import VIEWS, check_statement_options, statements
from binlake.table.counting.digests import Digests
from binlake.table.log_input import LogInput
from binlake.values.ledger import Ledger
from binlake.values.quantities import counted
from binlake.values.times import utc_text


@dataclass(frozen=True, slots=True)
class StatementChoices:
    """The options `--kind`, `--digest`, `--top` and `--json`; without kinds, all but transaction
    control.
    """

    kinds: frozenset[str]
    digest: bool
    top: int | None
    as_json: bool

    @classmethod
    def of(
        cls, words: Sequence[str] | None, digest: bool, top: int | None, as_json: bool
    ) -> StatementChoices:
        """Parse the options; `words` are words of KIND_WORDS, also several with commas. Raises
        OptionError.
        """
        kinds: set[str] = set()
        for word in (word.strip().lower() for text in words or () for word in text.split(",")):
            if word not in KIND_WORDS:
                raise OptionError(
                    f"--kind {word}: expected one of {', '.join(KIND_WORDS)}",
                    name="--kind",
                    value=word,
                )
            kinds |= KIND_WORDS[word]
        return cls(frozenset(kinds), digest, top, as_json)

    def wants(self, kind: str) -> bool:
        """Whether statements of a kind are listed."""
        return kind in self.kinds if self.kinds else kind != CONTROL


def print_statements(logs: LogInput, choices: StatementChoices) -> None:
    """Print the list. Raises BinlogError."""
    check_statement_options(logs.options)
    ledger = Ledger()
    shown = 0
    with reading(logs, ledger) as seen:
        if choices.digest:
            entries = _digests(logs, choices, ledger)
        else:
            entries = iter(seen(_statements(logs, choices, ledger)))
        line = digest_line if choices.digest else statement_line
        for entry in entries:
            shown += 1
            if choices.as_json:
                print(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
            else:
                show(line(entry))
    say_result(ledger)
    if not shown:
        say_nothing_found(logs, ledger)
    fail_if_lost(ledger)


def _statements(
    logs: LogInput, choices: StatementChoices, ledger: Ledger
) -> Iterator[dict[str, Any]]:
    columns = VIEWS["statements"].columns
    for reader in logs.readers(ledger):
        for row in statements(reader.groups()):
            entry = {column.name: column.value(row) for column in columns}
            entry["ts"] = utc_text(entry["ts"])
            entry["file"] = row.event.window.file.shown
            if choices.wants(entry["kind"]):
                yield entry


def _digests(logs: LogInput, choices: StatementChoices, ledger: Ledger) -> Iterator[dict[str, Any]]:
    digests = Digests(logs.options, ledger, choices.wants)
    for reader in logs.readers(ledger):
        for transaction in reader.transactions(digests.on_ddl):
            digests.add(transaction)
    if digests.left_out:
        note(f"{counted(digests.left_out, 'digest')} with the fewest bytes are not listed")
    yield from islice(digests.entries(), choices.top)
