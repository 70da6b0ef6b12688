"""What an agent itself can ask of its history."""
