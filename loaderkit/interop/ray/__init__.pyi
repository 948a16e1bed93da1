from .tasks import Tasks as Tasks
from .workers import Workers as Workers
