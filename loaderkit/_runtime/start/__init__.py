"""The start of a worker process: its interpreter, the trainer's state that it takes over, its first messages."""
