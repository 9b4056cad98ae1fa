"""The modes by name."""

from __future__ import annotations

from binlake.errors import SourceError
from binlake.mirror.modes.change_log import ChangeLog
from binlake.mirror.modes.equal_rows import EqualRows
from binlake.mirror.modes.history import History
from binlake.mirror.modes.mode import Mode
from binlake.mirror.modes.soft_deletes import SoftDeletes

_MODES: dict[str, Mode] = {
    mode.name: mode for mode in (EqualRows(), SoftDeletes(), ChangeLog(), History())
}


def mode_named(name: str) -> Mode:
    """The mode of a name. Raises SourceError."""
    if name not in _MODES:
        raise SourceError(
            f"this version of binlake has no mode {name!r}",
            hint="a newer one has written the lake",
        )
    return _MODES[name]
