"""The event pipeline: processors that offload, compress, window and budget a context's history."""
