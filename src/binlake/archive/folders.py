"""Opens the folder of an archive: a local directory or one in an object store."""

from __future__ import annotations

from binlake.archive.folder import Folder
from binlake.archive.local_folder import LocalFolder
from binlake.errors import OptionError
from binlake.source.bytes import is_uri, local_path
from binlake.source.reader import without_secrets


def open_folder(path: str) -> Folder:
    """Return the directory that a local path or a URI names; it need not exist. Raises
    SourceError.
    """
    path = local_path(path)
    if is_uri(path) and "?" in path:
        raise OptionError(
            f"{without_secrets(path)}: the URI of a store cannot have options here",
            name="DIR",
            hint="set its address in the environment: AWS_ENDPOINT_URL, AWS_DEFAULT_REGION",
        )
    if not is_uri(path):
        return LocalFolder(path)
    from binlake.archive.store import StoreFolder

    return StoreFolder(path)
