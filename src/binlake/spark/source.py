from pyspark.sql.datasource import DataSource


class BinlogDataSource(DataSource):
    @classmethod
    def name(cls):
        return "binlog"
