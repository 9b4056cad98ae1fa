"""`binlake gtid …`: find a transaction by its GTID, and calculate with sets of GTIDs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

from binlake.cli.common.command_help import HelpGroup
from binlake.cli.common.flags import HOW_LOGS_ARE_OPENED, with_options
from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Exit, Option, member
from binlake.cli.common.terminal import note
from binlake.errors import OptionError, SourceError
from binlake.source.access import Access
from binlake.source.chain import Chain, of_source
from binlake.source.resolve import resolve
from binlake.stream.positions.chosen_chains import the_only_chain
from binlake.stream.positions.gtid_search import (
    AnyGtid,
    AnyGtidSet,
    LocatedTransaction,
    NotFound,
    accounted,
    executed,
)
from binlake.stream.positions.gtid_search import locate as find
from binlake.table.log_input import LogInput
from binlake.values.gtid import Gtid, GtidSet, MariaGtid, MariaGtidGaps, parse_gtid_set
from binlake.values.options import ReadOptions
from binlake.values.times import utc_text

_HELP = """Find a transaction by its GTID, and calculate with GTID sets of MySQL and MariaDB.

    A SET is a list of GTIDs (MySQL: uuid:1-5:7:tag:9; MariaDB: 0-1-5,0-2-9 or 0-1:1-5), a file with such
    a list (@path, @- is stdin), or logs: a file, directory, glob or .index file stands for everything
    that its server had executed at the end of the logs. As on the server, MariaDB's 0-1-5 stands for
    everything of server 1 in domain 0 up to 5. Results are written as 0-1:1-5, which --gtid accepts.

    Examples:

      binlake gtid locate 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 /var/lib/mysql/

      binlake rows /var/lib/mysql/ --start "$(binlake gtid locate 0-1-4711 /var/lib/mysql/)"

      binlake gtid errant @replica.txt @source.txt

      binlake gtid gaps /var/lib/mysql/"""

gtid = HelpGroup("gtid", help=cleandoc(_HELP), no_args_is_help=True)

_Set = Annotated[str, Argument(metavar="SET", help="GTIDs, @FILE, or logs.")]
_Sets = Annotated[list[str], Argument(metavar="SET…", help="GTIDs, @FILE, or logs.")]
_OfLogs = Callable[[Chain, Access], AnyGtidSet]
_Json = Annotated[bool, Option("--json", help="Print the answer as one JSON object.")]


# parts of paths that sets of GTIDs do not contain
_LIKE_A_PATH = re.compile(r"[/\\*?\[]|\.\d|\.index$")


@member(gtid, "locate")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def locate(
    name: Annotated[str, Argument(metavar="GTID", help="One GTID, of MySQL or MariaDB.")],
    files: Annotated[list[str], Argument(metavar="FILE|DIR…", help="Logs to look in.")],
    options: ReadOptions,
    as_json: _Json = False,
) -> None:
    """Print FILE:POS of the transaction that has this GTID.

    Of files that cannot contain the transaction, it reads only the beginnings (PREVIOUS_GTIDS, GTID_LIST). The
    exit code is 1 if the transaction is not in the logs; stderr has the reason.

    Examples:
      binlake gtid locate 3e11fa47-71ca-11e1-9e33-c80aa9429562:23 /var/lib/mysql/
      binlake gtid locate 0-1-4711 'logs/binlog.*' --json
    """
    wanted = _one_gtid(name)
    answers = _answers(LogInput(files, options).found, wanted, Access.of(options))
    found = [answer for answer in answers if isinstance(answer, LocatedTransaction)]
    for answer in answers:
        if as_json and (isinstance(answer, LocatedTransaction) or not found):
            print(json.dumps(_answer_json(str(wanted), answer), ensure_ascii=False))
        elif isinstance(answer, LocatedTransaction):
            show(f"{answer.name}:{answer.pos}")
            note(_found_text(answer))
        elif not found:
            note(answer.message)
    if not found:
        raise Exit(1)


def _answers(
    chains: Sequence[Chain], wanted: AnyGtid, access: Access
) -> list[LocatedTransaction | NotFound]:
    """Look in each chain. An archive may have servers of both flavours: chains of the other one
    are refused only if there are no others.
    """
    answers: list[LocatedTransaction | NotFound] = []
    refused: OptionError | None = None
    for chain in chains:
        try:
            answers.append(find(chain, wanted, access))
        except OptionError as error:
            refused = refused or error
    if refused is not None and not answers:
        raise refused
    return answers


@member(gtid, "union")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def union(sets: _Sets, options: ReadOptions, as_json: _Json = False) -> None:
    """Print the GTIDs that are in any of the sets.

    Examples:
      binlake gtid union @a.txt @b.txt
    """
    result = _union(sets, options, executed)
    print(_json(result) if as_json else result)


@member(gtid, "subtract")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def subtract(first: _Set, sets: _Sets, options: ReadOptions, as_json: _Json = False) -> None:
    """Print the GTIDs of the first set that are in none of the others.

    Examples:
      binlake gtid subtract /var/lib/mysql/ @already-applied.txt
    """
    result = _set(first, options)
    for text in sets:
        left, right = _alike(result, _set(text, options))
        result = left - right
    print(_json(result) if as_json else result)


@member(gtid, "contains")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def contains(first: _Set, second: _Set, options: ReadOptions, as_json: _Json = False) -> None:
    """Check whether the first set contains the second.

    It prints the GTIDs that the first set lacks. The exit code is 1 if there are any.

    Examples:
      binlake gtid contains /var/lib/mysql/ 3e11fa47-71ca-11e1-9e33-c80aa9429562:23
    """
    left, right = _alike(_set(first, options), _set(second, options))
    missing = right - left
    if as_json:
        print(json.dumps({"contains": not missing, "missing": _set_json(missing)}))
    else:
        print(f"no, missing: {missing}" if missing else "yes")
    if missing:
        raise Exit(1)


@member(gtid, "gaps")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def gaps(sets: _Sets, options: ReadOptions, as_json: _Json = False) -> None:
    """Print the GTIDs that are missing in the sequence of each source.

    These are the numbers between its first and its last GTID. A source is a UUID and tag of MySQL, or a domain of MariaDB. The servers of a domain share one
    sequence, so a missing number is written 0-?:5. MariaDB's lists contain the last GTID of a server
    and not the gaps below it, so binlake reads all of its logs. The exit code is 1 if there are gaps.

    Examples:
      binlake gtid gaps /var/lib/mysql/
    """
    _report(_union(sets, options, accounted).gaps(), as_json, "no gaps")


@member(gtid, "errant")
@with_options("source", *HOW_LOGS_ARE_OPENED)
def errant(
    replica: Annotated[str, Argument(metavar="REPLICA", help="The replica's set.")],
    origin: Annotated[str, Argument(metavar="SOURCE", help="The source's set.")],
    options: ReadOptions,
    as_json: _Json = False,
) -> None:
    """Print the GTIDs that a replica has and its source lacks.

    Query the replica before the source. Otherwise, GTIDs that the source commits in between look
    errant. The exit code is 1 if there are errant GTIDs.

    Examples:
      binlake gtid errant @replica.txt @source.txt
      binlake gtid errant /replica/mysql/ /source/mysql/
    """
    left, right = _alike(_set(replica, options), _set(origin, options))
    _report(left - right, as_json, "no errant GTIDs")


# -- arguments -------------------------------------------------------------------------------------


def _one_gtid(text: str) -> AnyGtid:
    try:
        return Gtid.parse(text) if ":" in text else MariaGtid.parse(text)
    except ValueError:
        raise OptionError(
            f"{text!r} is not one GTID", value=text, hint="expected uuid:5, uuid:tag:5 or 0-1-5"
        ) from None


def _set(text: str, options: ReadOptions, of_logs: _OfLogs = executed) -> AnyGtidSet:
    """Return the set that an argument means. Raises BinlogError."""
    if text.startswith("@"):
        text, name = _text_of(text[1:]), text
    elif _LIKE_A_PATH.search(text) or text == "-" or (text and Path(text).exists()):
        held = of_logs(_one_chain(text, options), Access.of(options))
        if not held:
            note(f"{text}: the logs contain no GTIDs")
        return held
    else:
        name = repr(text)
    try:
        # the output of `mysql --batch` has its line breaks as \n
        return parse_gtid_set(text.replace("\\n", ""))
    except ValueError as error:
        raise OptionError(f"{name} is neither a set of GTIDs nor a log: {error}") from None


def _union(sets: Sequence[str], options: ReadOptions, of_logs: _OfLogs) -> AnyGtidSet:
    result = _set(sets[0], options, of_logs)
    for text in sets[1:]:
        left, right = _alike(result, _set(text, options, of_logs))
        result = left | right
    return result


def _text_of(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{path} is not a text file", hint="give logs without @") from None


def _one_chain(path: str, options: ReadOptions) -> Chain:
    chains = resolve([path], options.index_directory)
    if len(chains) > 1:  # the option applies to the arguments that need it
        chains = of_source(chains, options.source)
    return the_only_chain(chains, f"{path} can represent the GTIDs of only one server")


def _alike(left: AnyGtidSet, right: AnyGtidSet) -> tuple[Any, Any]:
    """Return two sets of one flavour; an empty set takes the flavour of the other. Raises OptionError."""
    if type(left) is type(right):
        return left, right
    if left and right:
        raise OptionError("one set contains GTIDs of MySQL, the other of MariaDB")
    return (left, type(left)()) if left else (type(right)(), right)


# -- answers ---------------------------------------------------------------------------------------


def _set_json(gtids: AnyGtidSet | MariaGtidGaps) -> dict[str, Any]:
    flavour = "mysql" if isinstance(gtids, GtidSet) else "mariadb"
    return {"set": str(gtids), "count": gtids.count(), "flavour": flavour}


def _json(gtids: AnyGtidSet | MariaGtidGaps) -> str:
    return json.dumps(_set_json(gtids))


def _report(gtids: AnyGtidSet | MariaGtidGaps, as_json: bool, none: str) -> None:
    """Print a set whose members are problems, and exit with 1 if there are any."""
    if as_json:
        print(_json(gtids))
    elif gtids:
        print(gtids)
    else:
        note(none)
    if gtids:
        raise Exit(1)


def _found_text(found: LocatedTransaction) -> str:
    whole = (
        ""
        if found.complete
        else "; incomplete: the file ends, or another transaction begins, before its end"
    )
    return (
        f"{found.gtid}: {found.path}, bytes {found.pos} to {found.end_pos}, committed"
        f" {utc_text(found.commit_us)}, server {found.server_id}{whole}"
    )


def _answer_json(name: str, answer: Any) -> dict[str, Any]:
    if not isinstance(answer, LocatedTransaction):
        return {"gtid": name, "found": False, "why": answer.why.value, "message": answer.message}
    return {
        "gtid": name,
        "found": True,
        "file": answer.name,
        "path": answer.path,
        "pos": answer.pos,
        "end_pos": answer.end_pos,
        "ts": utc_text(answer.commit_us),
        "server_id": answer.server_id,
        "complete": answer.complete,
    }
