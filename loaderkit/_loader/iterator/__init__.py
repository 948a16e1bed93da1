"""The iterator: a position, the stream of elements that starts there, and what the user is told of it.

Joins the plan, the engine and an executor; holds no rule of the order, of states or of workers itself.
"""
