"""Faults that users reported of other programs that mirror databases into lakes, and the tests that reproduce them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KNOWN_FAULTS", "Fault"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that users saw, where they reported it, and tests as `file::function`, below `tests/`."""

    what: str
    reports: tuple[str, ...]
    tests: tuple[str, ...]


_HERE = "mirror/test_known_faults.py"
_KILLS = "mirror/test_kills_at_places.py::test_kills_at_places"
_ALTERS = "mirror/test_schema_changes.py"
_SEVERAL = f"{_HERE}::test_several_changes_of_a_key_and_a_crash"
_REWRITES = "mirror/test_compaction.py"

KNOWN_FAULTS = (
    Fault("Other readers cannot read the deletes", ("airbyte#82750",),
          (_SEVERAL, "mirror/test_iceberg_table.py::test_random_changes_by_key")),
    Fault("Duplicates after a crash with two updates of a key", ("iceberg#17455",), (_SEVERAL, _KILLS)),
    Fault("After an insert and an update of one key in one batch, both rows stay", ("olake#1189",),
          (_SEVERAL, "unit/mirror/apply/test_net.py::test_net_changes_by_key_lead_to_the_same_rows")),
    Fault("A partition column is updated, and the old row stays", ("flink-cdc#4536", "iceberg#11573"),
          ("mirror/test_lake_tables.py::test_tables_are_partitioned",)),
    Fault("A delete whose image lacks columns has no effect", ("iceberg-kafka-connect#318",),
          (f"{_HERE}::test_a_delete_by_key_in_a_partitioned_table",)),
    Fault("A key changes, and the old row stays", ("hudi#9186",), (_SEVERAL, _KILLS)),
    Fault("TRUNCATE is ignored", ("materialize#25122",), (f"{_ALTERS}::test_statements_that_the_lake_follows",)),
    Fault("An ENUM is a label in the copy and a number in the stream; an event with the value 0 is lost",
          ("olake#707", "data-prepper#6779"), (f"{_HERE}::test_members_of_an_enum",)),
    Fault("The limits of chunks do not follow the order of the collation, and rows are lost", ("flink-cdc#4413",),
          ("mirror/copies/test_source_chunks.py::test_every_row_is_in_one_chunk",
           "mirror/copies/test_source_chunks.py::test_rows_written_later_are_in_a_chunk")),
    Fault("A table that is added later is not copied; after a table is removed, all tables are copied again",
          ("flink-cdc#1486", "flink-cdc#2190"), (f"{_HERE}::test_a_table_that_is_added_or_excluded_later",)),
    Fault("After a log was purged, the program restarts forever", ("flink-cdc#442",),
          (f"{_HERE}::test_a_purged_log", "mirror/test_operations.py::test_exit_codes_that_a_service_distinguishes")),
    Fault("A retried copy starts at another position, and rows are missing", ("airbyte#48717",),
          ("mirror/copies/test_copies.py::test_a_killed_copy_continues",)),
    Fault("After a failed run, the next one starts at an old position", ("airbyte#70254",), (_KILLS, _SEVERAL)),
    Fault("A change of a column type ends the program", ("debezium-server-iceberg#572",),
          (f"{_ALTERS}::test_refused_statements_and_new_copies",)),
    Fault("An ALTER runs during a copy", ("debezium#6000",),
          ("mirror/copies/test_copies.py::test_a_copy_of_an_altered_table_starts_again",)),
    Fault("The index has entries for files that were never committed", ("olake#1064",),
          (_KILLS, "unit/mirror/test_index_of_table.py::test_a_commit_that_does_not_reach_the_catalog",
           "unit/mirror/test_index_of_table.py::test_index_entries_of_a_commit_that_the_table_does_not_have",
           "unit/mirror/test_index_of_table.py::test_a_commit_with_an_incomplete_index")),
    Fault("Compaction brings deleted rows back", ("iceberg#10312",),
          (f"{_REWRITES}::test_changes_made_during_a_rewrite", _KILLS)),
    Fault("Compaction beside a stream never commits", ("iceberg#13972",),
          (f"{_REWRITES}::test_rounds_with_compaction_beside_them",)),
    Fault("Compaction runs out of memory", ("iceberg#10054",),
          ("unit/mirror/iceberg/test_compaction_memory.py::test_a_rewrite_of_many_files",
           "unit/mirror/test_compaction.py::test_a_job_is_bounded")),
)  # fmt: skip
