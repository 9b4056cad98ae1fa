"""Row images to Arrow: plans, column types, batches, JSON lines, declared schemas."""
