"""Tables of Spark's catalog: `CREATE TABLE orders USING binlog OPTIONS (…)`.

Spark 4.1 to 4.3 gives a table's options to the source when the table is created, mixed with keys
of its own (`provider`, `owner`, `location`, the table's properties); an option of the user also
comes with the prefix `option.`. When the table is read, the source gets the columns with their
metadata, but no options. So the schema that the source infers for a new table carries the options,
in the metadata of its first column. For a table whose columns the user wrote, no options are left.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from binlake.errors import OptionError

_OPTIONS = "binlake.options"  # key of the column's metadata
_PREFIX = "option."
_OF_A_CATALOG = "provider"
_PATHS = ("path", "paths", "location")


def options_of_new_table(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return the user's options of a table that is being created; None for any other call."""
    lower = {key.lower(): text for key, text in given.items()}
    if _OF_A_CATALOG not in lower:
        return None
    options = {
        key.removeprefix(_PREFIX): text for key, text in lower.items() if key.startswith(_PREFIX)
    }
    if "server" not in options and not any(key in options for key in ("path", "paths")):
        where = lower.get("path", lower.get("location"))
        if where is not None:
            options["path"] = _plain_path(where)
    return options


def _plain_path(path: str) -> str:
    """Return the path in Spark's URI of a local path, which has no escapes: `file:/logs`."""
    return path.removeprefix("file:") if not path.startswith("file://") else path


def carrying(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the schema of a new table, with its options in the metadata of the first column."""
    first, *others = schema.fields
    metadata = {**first.metadata, _OPTIONS: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, True, metadata), *others])


def options_of_read(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a read: its own, and those that a catalog's table carries.

    Raises OptionError for a table of the catalog that has lost its options.
    """
    carried: dict[str, str] = {}
    for field in schema.fields:
        carried = json.loads(field.metadata.get(_OPTIONS, "{}"))
        if carried:
            break
    lower = {key.lower() for key in given}
    if any(key in lower for key in (*_PATHS, "server")):
        carried = {key: text for key, text in carried.items() if key not in (*_PATHS, "server")}
    elif not carried and not given:
        raise OptionError(
            "no path to read: Spark keeps no options of a table that was created with columns",
            name="path",
            hint="create it without columns (CREATE TABLE t USING binlog OPTIONS (…)), or give the path "
            "when you read it: SELECT … FROM t WITH (path = '…', table = '…')",
        )
    if not carried:
        return given
    return {**{key: text for key, text in carried.items() if key not in lower}, **given}
