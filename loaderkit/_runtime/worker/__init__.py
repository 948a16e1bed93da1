"""Runs tasks in a worker: reads records, runs operations, handles bad records, reports progress.

Knows nothing of executors.
"""
