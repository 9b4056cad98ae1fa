from typing_extensions import Buffer

from binlake.core.events.plain_groups import PlainGroups

def gtid_texts(groups: PlainGroups, low: int, high: int) -> tuple[memoryview, Buffer, int]: ...
