"""`python -m durable_context.cli`: the command without its script."""

from durable_context.cli import main

main()
