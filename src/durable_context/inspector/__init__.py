"""`durable-context ui`: a page in the browser over the read API of the library.

HTML comes from the server whole; htmx only swaps parts of it. What users, tools and models wrote
is shown as text: templates escape all, and nothing is loaded from anywhere else.
"""
