"""Asks of recorded agents whether the prompt before a tool call holds the values of that call."""
