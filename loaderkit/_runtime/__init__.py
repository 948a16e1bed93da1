"""Runs tasks: executors, workers, messages, shared memory, and agreement between processes.

Decides nothing that changes a stream.
"""
