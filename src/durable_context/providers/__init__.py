"""Messages in the formats of the providers: read from them into OpenAI chat format, and rendered
for them.
"""
