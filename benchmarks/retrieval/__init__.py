"""Asks long conversations questions whose evidence is known, and looks for it in the prompts."""
