"""The names of the modes, and the options that choose them."""

from __future__ import annotations

#: The rows of the server.
MIRROR = "mirror"
#: Also those that the server has deleted.
SOFT_DELETES = "soft deletes"
#: A row for each change.
APPEND = "append"
#: A row for each version of a row.
HISTORY = "history"

#: The option with the patterns of the tables that are in a mode.
MODE_OPTIONS = {
    SOFT_DELETES: "soft_delete_tables",
    APPEND: "append_tables",
    HISTORY: "history_tables",
}
