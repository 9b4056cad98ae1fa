"""`binlake.mirror` for Python: in a Spark session of your own, or one that is started."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlake.errors import OptionError
from binlake.interrupts import end_by_signal
from binlake.lake.jobs import SparkEngine
from binlake.mirror.apply.task_files import TaskFiles
from binlake.mirror.control import Control
from binlake.mirror.equality.compare import VerifyOptions
from binlake.mirror.followed.in_lake import UnreadTables
from binlake.mirror.followed.table_record import begun_tables, merged_tables, mirrored_tables
from binlake.mirror.iceberg.key_tasks import TaskKeyReader
from binlake.mirror.lake_state import check_store, index_directory, lake_location
from binlake.mirror.lakes import open_lake
from binlake.mirror.lease import writer_of
from binlake.mirror.loop import Mirror
from binlake.mirror.options import MIRROR_OPTIONS, MirrorOptions
from binlake.mirror.reporting.metrics import METRICS_ADDRESS, answering
from binlake.mirror.reporting.report import MirrorStatus, mirror_status
from binlake.mirror.selection import (
    TableSelection,
    check_addition,
    check_known,
    check_not_merged,
    check_not_removed,
    checked_patterns,
    chosen_tables,
    is_pattern,
    matches,
    unknown_names,
)
from binlake.mirror.sessions import CATALOG, mirror_session
from binlake.mirror.tables.formats import LakeTables, check_format
from binlake.mirror.upkeep import compact_tables
from binlake.mirror.verification import Verification, verify_tables
from binlake.values.similar_names import did_you_mean, question_of
from binlake.values.table_names import table_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Path = str | os.PathLike[str]
_SAMPLES = 1_000_000
# The parameters of `mirror` that are no options of `MirrorOptions`, which users may misspell, too.
_PARAMETERS = (
    "once", "spark", "catalog", "logs", "state", "interval_s", "metrics_port", "metrics_address", "note",
)  # fmt: skip


def mirror(
    url: str,
    lake: _Path,
    tables: Sequence[str] = ("*.*",),
    *,
    once: bool = True,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    logs: _Path | None = None,
    state: _Path | None = None,
    interval_s: float = 1.0,
    metrics_port: int | None = None,
    metrics_address: str = METRICS_ADDRESS,
    note: Callable[[str], None] = lambda _sentence: None,
    **options: Any,
) -> MirrorStatus:
    """Bring the lake's tables up to date with the server's; return the status after that.

    The default, `once=True`, is `--once` of the command. `once=False` follows the log, as the command does by default, until
    Ctrl-C or SIGTERM: then it ends after the current round and returns the status. The next call continues there. Only
    calls in the main thread receive these signals.

    `tables` are patterns; `options` are fields of
    `MirrorOptions`. `spark` is a session that has Iceberg's jar and the `catalog`; without one, a session
    is started whose catalog is the directory `lake`. `logs`: an archive to read the changes from. `state`: a
    directory for the row indexes. `interval_s`: how often an idle log is checked, in seconds. `metrics_port`: where
    Prometheus can ask for metrics during the call. `note` receives messages for the user. Raises BinlogError, among them
    OptionError for an unknown option.
    """
    chosen = _options(tables, options)
    place = lake_location(lake)
    check_format(place, chosen)
    check_store(place)
    indexes = index_directory(place, _text(state))
    with answering(metrics_port, metrics_address, indexes, note) as show:
        session = spark or mirror_session(place, catalog=catalog, table_format=chosen.format)
        made = Mirror(
            session,
            url,
            place,
            chosen,
            catalog=catalog,
            logs=_text(logs),
            state=_text(state),
            note=note,
            show=show,
        )
        # PySpark's own handler of Ctrl-C asks the JVM in the middle of another question, and both fail
        with closing(made), nullcontext() if once else end_by_signal(made.stop):
            made.run(once=once, interval_s=interval_s)
            if once:
                made.tidy()
    return mirror_status(open_lake(session, catalog, place), indexes)


def _options(tables: Sequence[str], given: Mapping[str, Any]) -> MirrorOptions:
    """The options of a mirror that Python code gives. Raises OptionError."""
    _check_names(given)
    # the lake keeps the path of a file: other processes have other working directories
    files = {option.name for option in MIRROR_OPTIONS if option.is_file}
    paths = {name: str(Path(given[name]).absolute()) for name in files & given.keys() if given[name]}  # fmt: skip
    return MirrorOptions.of({"tables": tables, **given, **paths})


def _check_names(names: Iterable[str]) -> None:
    """Raise OptionError for a name that no option has: without the option, a column could be visible that it should hide."""
    known = [option.name for option in MIRROR_OPTIONS]
    flags = {
        option.flag.removeprefix("--").replace("-", "_"): option.name
        for option in MIRROR_OPTIONS
        if option.flag
    }
    for name in names:
        if name in known:
            continue
        meant = flags.get(name.replace("-", "_"))
        question = question_of([meant]) if meant else did_you_mean(name, (*known, *_PARAMETERS))
        raise OptionError(
            f"unknown option {name!r}",
            name=name,
            hint=question or f"options are: {', '.join(sorted(known))}",
        )


def verify(
    lake: _Path,
    tables: Sequence[str] = (),
    *,
    sample: float = 1.0,
    sample_number: int | None = None,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    logs: _Path | None = None,
    state: _Path | None = None,
    note: Callable[[str], None] = lambda _sentence: None,
) -> Verification:
    """Compare tables of a lake (all without `tables`) with their source, each at one position of its log.

    `tables` are names and patterns. Brings the lake up to date first, so no other process may mirror into it, also on
    another machine. `sample`: the share of
    rows to compare, above 0. `sample_number` chooses these rows, by default at random; the result contains it. `logs`:
    an archive to read the changes from, which must keep up with the server. Raises SourceError if the lake has no mirror
    or another process mirrors into it, OptionError for a name that the lake does not have and a pattern that matches none
    of its tables, BinlogError if the mirror is paused or has no table, LogLagsError if the archive does not reach the
    server's position in five minutes, and ServerError.
    """
    if tables:
        checked_patterns(tables)
    if sample_number is not None and sample == 1:
        raise OptionError("option sample_number requires option sample", name="sample_number")
    number = secrets.randbelow(_SAMPLES) if sample_number is None else sample_number
    options = VerifyOptions(sample=sample, sample_number=number)
    session = spark or mirror_session(lake_location(lake), catalog=catalog)
    opened = open_lake(session, catalog, lake_location(lake))
    control = Control(opened)
    control.check_not_paused()
    if tables:
        known = _followed_names(opened, control, tables)
        check_not_merged(tables, known, lambda: merged_tables(opened))
        chosen_tables(tables, known)
    made = Mirror(
        session,
        control.source,
        lake_location(lake),
        control.options,
        catalog=catalog,
        logs=_text(logs),
        state=_text(state),
        note=note,
    )
    with closing(made):
        return verify_tables(made, tables, options, lambda table: note(f"comparing {table}"))


def _followed_names(lake: LakeTables, control: Control, tables: Sequence[str]) -> set[str]:
    """Return the tables that a mirror follows, or has left: whose copy has begun, is due, or that are in quarantine or gone. `tables`:
    those in question.
    """
    selection = TableSelection.of(control.options, control.added, control.removed)
    begun = _begun(lake, control, tables, lambda _sentence: None)
    known = begun | {*control.quarantined, *control.to_resync, *control.gone}
    return {name for name in known if selection.wants(*table_name(name))}


def _begun(
    lake: LakeTables, control: Control, texts: Iterable[str], note: Callable[[str], None]
) -> set[str]:
    """Return the tables whose copy has begun, also if a lake table cannot be read just now. `texts`: those in question, and patterns.
    `note` receives a message for lake tables that may be of other tables.
    """
    unread = UnreadTables(control)
    begun = begun_tables(lake, unread)
    unread_names = unread.among([text for text in texts if not is_pattern(text)]).keys()
    unread.note_others(unread_names, note)
    return begun | unread_names


def status(
    lake: _Path,
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    state: _Path | None = None,
) -> MirrorStatus:
    """Return the status that the lake records, with the facts that only the mirror's own machine has.

    `state` as in `mirror`. Raises SourceError where there is none.
    """
    session = spark or mirror_session(lake_location(lake), catalog=catalog)
    place = lake_location(lake)
    return mirror_status(open_lake(session, catalog, place), index_directory(place, _text(state)))


def _text(path: _Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def resync(
    lake: _Path,
    tables: Sequence[str],
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Ask for tables to be copied again, by the running mirror or at its next start. A table that is being copied is copied
    once more after that.

    `tables` are names and patterns; a pattern stands for the followed tables that match it. `note` receives a message if
    lake tables that may be among them cannot be read. Raises OptionError for a pattern that matches none of them, for a name that the lake does not have, also not in quarantine, and for a table
    that was removed.
    """
    opened = _lake(lake, spark, catalog)
    control = Control(opened)
    patterns = checked_patterns(tables)
    selection = TableSelection.of(control.options, control.added, control.removed)
    begun = _begun(opened, control, patterns, note)
    aside = {*control.quarantined, *control.to_resync}
    check_not_merged(patterns, begun | aside | {*control.gone}, lambda: merged_tables(opened))
    check_known(patterns, begun | aside | {*control.gone})
    known = (begun - {*control.gone}) | aside
    followed = {name for name in known if selection.wants(*table_name(name))}
    names = {
        text for text in patterns if not is_pattern(text)
    }  # also of tables that are not followed
    check_not_removed(names, control.removed)
    wild = sorted(patterns - names)
    control.request_resync(names | (chosen_tables(wild, followed) if wild else set()))


def add(
    lake: _Path,
    tables: Sequence[str],
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Follow more tables than the options select: the running mirror, or the next one.

    `tables` are patterns. A table that was removed before by one of them is copied again. `note` receives a message for each
    other removed table or pattern that one of them matches, because it stays removed, and if lake tables that may be among
    them cannot be read. Raises OptionError for a pattern
    that changes nothing, because --exclude-table or a removed pattern still excludes it.
    """
    opened = _lake(lake, spark, catalog)
    control = Control(opened)
    patterns = checked_patterns(tables)
    before = TableSelection.of(control.options, control.added, control.removed)
    check_addition(patterns, before)
    stays = tuple(text for text in control.removed if text not in patterns)
    after = TableSelection.of(control.options, (*control.added, *sorted(patterns)), stays)
    unread = UnreadTables(control)
    there = {*mirrored_tables(opened, unreadable=unread)}
    unread_names = unread.among([text for text in patterns if not is_pattern(text)]).keys()
    unread.note_others(unread_names, note)
    again = {
        name
        for name in there | unread_names
        if after.wants(*table_name(name)) and not before.wants(*table_name(name))
    }
    for text in stays:
        if any(matches(pattern, text) for pattern in patterns):
            note(f"{text} stays removed; to follow it again, add {text!r}")
    control.add_tables(patterns, again)


def remove(
    lake: _Path,
    tables: Sequence[str],
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Stop following tables: in the running mirror, and in the next ones. The lake tables stay as they are.

    `tables` are names and patterns, also of tables that the lake does not have yet. `note` receives a message for each
    such name, which may be misspelled. Raises OptionError for a text that is no pattern.
    """
    opened = _lake(lake, spark, catalog)
    control = Control(opened)
    patterns = checked_patterns(tables)
    begun = _begun(opened, control, patterns, note)
    known = begun | {*control.quarantined, *control.gone, *control.to_resync}
    for name, question in unknown_names(patterns, known | {*control.added}).items():
        note(f"the lake has no table {name} yet{question and f'; {question}'}")
    removed = {name for name in known if any(matches(pattern, name) for pattern in patterns)}
    control.remove_tables(patterns, removed)


def compact(
    lake: _Path,
    tables: Sequence[str] = (),
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    state: _Path | None = None,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Rewrite tables (all without `tables`) so that they have no deleted rows and no small files.

    `tables` are names and patterns. If another process mirrors into the lake, that process does it. Otherwise it is done
    when this returns, and files that killed processes have left are removed. Raises SourceError, also for a name that the
    mirror does not follow, OptionError for a pattern that matches none of its tables, and BinlogError if tables could not be
    compacted; `note` receives the reasons.
    """
    if tables:
        checked_patterns(tables)
    session = spark or mirror_session(lake_location(lake), catalog=catalog)
    place, engine = lake_location(lake), SparkEngine(session)
    indexes = index_directory(place, _text(state))
    key_reader = TaskKeyReader(engine, TaskFiles.of(engine, indexes, place), note)
    opened = open_lake(session, catalog, place, key_reader=key_reader)
    compact_tables(opened, engine, indexes, tables, note)


def pause(
    lake: _Path,
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Pause the mirror: it makes no rounds until `resume`. `note` receives a message that says when the pause begins."""
    control = _control(lake, spark, catalog)
    control.pause()
    writer = writer_of(control)
    when = f"when it starts: no process mirrors into {lake} now"
    if writer is not None:
        when = f"after its current round ({writer})"
    note(f"the mirror pauses {when}. To continue: binlake mirror resume {lake}")


def resume(
    lake: _Path,
    *,
    spark: SparkSession | None = None,
    catalog: str = CATALOG,
    note: Callable[[str], None] = lambda _sentence: None,
) -> None:
    """Resume a paused mirror. `note` receives a message that says whether it runs now."""
    control = _control(lake, spark, catalog)
    control.resume()
    writer = writer_of(control)
    now = "continues" if writer else f"is not paused; no process mirrors into {lake} now"
    note(f"the mirror of {lake} {now}{f' ({writer})' if writer else ''}")


def _control(lake: _Path, spark: SparkSession | None, catalog: str) -> Control:
    return Control(_lake(lake, spark, catalog))


def _lake(lake: _Path, spark: SparkSession | None, catalog: str) -> LakeTables:
    session = spark or mirror_session(lake_location(lake), catalog=catalog)
    return open_lake(session, catalog, lake_location(lake))
