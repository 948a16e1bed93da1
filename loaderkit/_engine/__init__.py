"""The scheduling of one executor: which task is next, which worker does it, what became of it, what is handed out.

A state machine without I/O: events in, assignments out. It never sees a record.
"""
