"""After the turn: segments, drafts, checkpoints, the index, and how Temporal is asked for them."""
