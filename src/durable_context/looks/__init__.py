"""What those who look at a branch read of it. Each read is bounded: by what it returns or by a few
columns of the turns, never by their content.
"""
