"""The doctor: looks at all that Durable Context stands on, and says how to mend what is not well.

Whatever is down, the other checks go on. It changes nothing and shows no secrets.
"""
