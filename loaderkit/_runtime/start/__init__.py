"""How a worker process starts: its interpreter, what it takes over from the trainer, what it is told first."""
