"""Turns on their way in: what they may be, and everything that is computed of them once."""
