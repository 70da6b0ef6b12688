"""Before the model call: what is read of a branch, and how a prompt within budget is made of it."""
