"""Content moved out of the conversation: stored once, found by handle, summarized, quoted."""
