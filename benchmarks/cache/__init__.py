"""What a provider that caches prefixes would serve of the prompts of long conversations."""
