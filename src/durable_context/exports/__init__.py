"""A branch as a stream of JSON Lines, out and in."""
