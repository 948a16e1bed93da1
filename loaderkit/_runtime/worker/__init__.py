"""What a worker does with a task: it reads, runs the operations, answers for bad records, says where it is.

Nothing here knows an executor.
"""
