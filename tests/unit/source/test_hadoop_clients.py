"""All files of a Hadoop cluster have one client: libhdfs closes the files of a client that Python drops."""

from __future__ import annotations

import pytest
from pyarrow import fs

from binlake.source.bytes import file_system_for


def test_one_client_for_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class WithoutHadoop:  # libhdfs is only in Hadoop's distribution
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            asked.append(uri)
            return object(), "/" + uri.partition("://")[2].partition("/")[2]

    monkeypatch.setattr(fs, "FileSystem", WithoutHadoop)
    one, path = file_system_for("hdfs://one-client:8020/lake/a.parquet")
    again, other_path = file_system_for("hdfs://one-client:8020/lake/b c.parquet")
    third, _ = file_system_for("hdfs://one-client:8020/lake/c.parquet")
    other, _ = file_system_for("hdfs://other-client:8020/lake/a.parquet")
    assert one is again is third
    assert other is not one
    assert (path, other_path) == ("/lake/a.parquet", "/lake/b c.parquet")
    assert len(asked) == 3  # the space is pyarrow's to parse
    assert file_system_for("hdfs://one-client:8020/") == (one, "/")
    assert len(asked) == 3
