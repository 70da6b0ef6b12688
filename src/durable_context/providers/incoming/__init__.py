"""From each provider's format to OpenAI chat format, losing nothing: what that has no place for
becomes `reasoning`, kept as it came, or an extra field.
"""
