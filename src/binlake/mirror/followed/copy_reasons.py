"""Why the lake does not show some tables yet, with the progress of their copies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from binlake.mirror.followed.first_copy import CopyProgress


class CopyReasons:
    """Receives the progress of copies, hands it on to `watch`, and puts it into the reasons."""

    def __init__(self, watch: Callable[[CopyProgress], None]) -> None:
        self._watch = watch
        self._seen: dict[str, CopyProgress] = {}

    def __call__(self, progress: CopyProgress) -> None:
        """Remember how far a copy is."""
        self._seen[progress.table] = progress
        self._watch(progress)

    def of(
        self,
        requested: Collection[str],
        restless: Collection[str],
        unfinished: Collection[str],
        lagging: Mapping[str, Exception],
    ) -> dict[str, str]:
        """The reasons by table, of the kinds of `FollowedTables`."""
        reasons = dict.fromkeys(requested, "a resync was requested, and has not begun")
        reasons |= dict.fromkeys(
            restless, "it was altered in each of several copies: the next run copies it"
        )
        # the next copy of a table begins at its first chunk
        self._seen = {name: seen for name, seen in self._seen.items() if name in unfinished}
        reasons |= {name: f"its copy is not complete{self._so_far(name)}" for name in unfinished}
        return reasons | {name: f"its copy waits: {error}" for name, error in lagging.items()}

    def _so_far(self, full_name: str) -> str:
        seen = self._seen.get(full_name)
        return "" if seen is None else f": {seen.done}"
