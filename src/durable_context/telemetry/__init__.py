"""Spans and metrics, through the OpenTelemetry API alone: what is done with them is up to the
process. They hold ids, counts, names and durations, never content: see docs/telemetry.md.
"""
