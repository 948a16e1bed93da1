"""Messages between a trainer and its workers: tasks, reports, objects, exceptions."""
