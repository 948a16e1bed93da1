from .tasks import Tasks as Tasks
