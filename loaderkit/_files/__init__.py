"""How states lie on disk: written whole or not at all, read and compared over all processes.

Knows nothing of what a state says but its step and its writers.
"""
