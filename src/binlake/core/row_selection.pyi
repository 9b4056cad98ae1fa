from typing_extensions import Buffer

class RowSelection:
    def __init__(self, pos: Buffer, row: Buffer, start: Buffer) -> None: ...
