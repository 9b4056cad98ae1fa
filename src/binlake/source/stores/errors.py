"""Hints for the errors of object stores, which pyarrow reports as text."""

from __future__ import annotations

_OF_S3 = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the machine"
_OF_GCS = "GOOGLE_APPLICATION_CREDENTIALS, gcloud auth application-default login, or the machine"
_OF_AZURE = "AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, az login, or the machine"
# By scheme: the ways to give a store credentials without showing them.
_CREDENTIALS = {
    **dict.fromkeys(("s3", "s3a", "s3n"), f"they come from {_OF_S3}"),
    **dict.fromkeys(("gs", "gcs"), f"they come from {_OF_GCS}"),
    **dict.fromkeys(("abfs", "abfss"), f"they come from {_OF_AZURE}"),
}
# S3 answers expired credentials with 400. The answer to a HEAD request contains no more than that.
_REFUSED = (
    "ExpiredToken",
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "HTTP status 400",
    "HTTP status 403",
)
# pyarrow opens these with a library that it does not contain.
_OF_HADOOP = ("hdfs", "viewfs")
_LIBHDFS = (
    "binlake opens it with Hadoop's library libhdfs: install Hadoop on this machine and on each executor, and set JAVA_HOME,"
    " HADOOP_HOME, and CLASSPATH to the output of `hadoop classpath --glob`"
)
_BUSY = ("SLOW_DOWN", "SERVICE_UNAVAILABLE", "HTTP status 503", "HTTP status 500")


def credentials_of(uri: str) -> str | None:
    """Return where the store of a URI finds credentials, None for an unknown store."""
    return _CREDENTIALS.get(uri.partition("://")[0].lower())


def needs_hadoop(uri: str) -> bool:
    """Whether the store of a URI is opened with a library of Hadoop."""
    return uri.partition("://")[0].lower() in _OF_HADOOP


def hint_of_opening(uri: str) -> str | None:
    """Return what the store of a URI needs on the machines that open it, None if that is nothing."""
    return _LIBHDFS if needs_hadoop(uri) else None


def hint_of_store(uri: str, reason: str) -> str | None:
    """Return a hint for the text of an error of a store, None if there is none."""
    source = credentials_of(uri)
    if source is None:
        return None
    if any(word in reason for word in _REFUSED):
        return f"check that the credentials are valid and have not expired: {source}"
    if any(word in reason for word in _BUSY):
        return "the store refused several attempts: try again later, or with fewer tasks at a time"
    return None
