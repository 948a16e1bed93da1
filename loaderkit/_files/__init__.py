"""Files of saved states: written whole or not at all, read and checked over all processes.

Of a state's contents it knows only the step and the writers.
"""
