"""The data source `binlog`: options in, a schema and a reader out.

Spark creates it for every load, in a helper process of the driver, and calls `schema` only when
the user gave none. The result of `schema` travels inside the pickled source to `reader`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from binlake.errors import SchemaError, SourceError, UnsupportedError
from binlake.spark.driver import SessionDriver
from binlake.spark.hosts import Shipped, without_traceback
from binlake.spark.options import SourceOptions

if TYPE_CHECKING:
    from binlake.spark.typed import InferredView


class BinlogDataSource(Shipped, DataSource):
    """`spark.read.format("binlog")`; its options are documented in `spark/options.py`.

    Sessions that binlake prepares register a class that knows their `driver` (`for_session`).
    """

    driver: SessionDriver = SessionDriver()
    _inferred: InferredView | None = None

    @classmethod
    def for_session(cls, driver: SessionDriver) -> type[BinlogDataSource]:
        """Return the class to register in a session with this driver."""
        return type(cls.__name__, (cls,), {"driver": driver})

    @classmethod
    def name(cls) -> str:
        """Return the format name."""
        return "binlog"

    @without_traceback
    def schema(self) -> StructType:
        """Return the schema of the view that the options select."""
        from binlake.spark.catalog_tables import carrying, options_of_new_table
        from binlake.spark.schema import spark_schema
        from binlake.spark.typed import InferredView
        from binlake.spark.views import view_schema

        new_table = options_of_new_table(self.options)
        options = SourceOptions.parse(self.options if new_table is None else new_table)
        if options.view != "table":
            found = view_schema(options)
        else:
            self._inferred, self._read = InferredView.find(options)
            found = self._inferred.schema
        schema = spark_schema(found)
        return schema if new_table is None else carrying(schema, new_table)

    @without_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of that view, for the schema that Spark has settled on."""
        from binlake.spark.batch import BinlogReader

        options, inferred = self._options_for(schema)
        options.refuse_stream_options()
        return BinlogReader(options, schema, inferred, self.driver)

    @without_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the reader of that view as a stream, for the schema to which the query is pinned."""
        from binlake.spark.streaming.stream import BinlogStreamReader
        from binlake.spark.typed import PinnedView

        options, inferred = self._options_for(schema)
        pinned = None
        if inferred is not None:
            inferred.check_without_ddl(options)
            pinned = PinnedView.of(inferred)
        return BinlogStreamReader(options, schema, pinned, self.driver)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Refuse to write. Raises UnsupportedError."""
        # without these methods, Spark reports only that PySpark's own are not implemented
        raise UnsupportedError(
            "the format binlog can only be read, because a server writes its logs itself",
            hint="write to a table of another format: df.write.format('parquet')",
        )

    streamWriter = writer  # noqa: N815 - Spark's

    def _options_for(self, schema: StructType) -> tuple[SourceOptions, InferredView | None]:
        """Return the options to read with for a schema, and the typed view if it was found in the
        log.
        """
        from binlake.spark.catalog_tables import options_of_read
        from binlake.spark.schema import refuse_variant
        from binlake.spark.typed import options_for_schema
        from binlake.spark.views import view_columns

        given = options_of_read(self.options, schema)
        options = SourceOptions.parse(given)
        refuse_variant(schema)
        if options.view == "table" and self._inferred is None and given is not self.options:
            self._find_again(options, schema)
        if self._inferred is not None:
            options = replace(options, read=self._read)
        elif options.view == "table":
            options = replace(options, read=options_for_schema(options.read, schema.names))
        else:
            view_columns(options, schema.names)
        return options, self._inferred

    def _find_again(self, options: SourceOptions, schema: StructType) -> None:
        """Return the typed view of a catalog's table, if the log still has the table's columns.

        Otherwise the columns count as given by the user.
        """
        from binlake.spark.schema import spark_schema
        from binlake.spark.typed import InferredView

        try:
            inferred, read = InferredView.find(options)
        except (SchemaError, SourceError):  # not in the newest part of the log, for example
            return
        if spark_schema(inferred.schema).simpleString() == schema.simpleString():
            self._inferred, self._read = inferred, read
