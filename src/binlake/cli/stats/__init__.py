"""The command `binlake stats`."""

from binlake.cli.stats.command import stats

__all__ = ["stats"]
