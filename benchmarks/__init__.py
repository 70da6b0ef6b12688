"""Measures prepare, record_turn and compaction beside the least the same servers could do."""
