"""From a prompt in OpenAI chat format to the request of another provider. Pure functions."""
