"""What the context tools answer: text for a model, labelled as data and within a bound. What does
not fit is cut between lines, and the head of an answer says how to read on.
"""
