from binlake.core.events.plain_groups import PlainGroups

FACTS: tuple[str, ...]

def run_facts(groups: PlainGroups, low: int, high: int) -> tuple[memoryview[int], int]: ...
