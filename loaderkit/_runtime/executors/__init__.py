"""Ways to run tasks: in this process, in threads, in processes; and what becomes of workers that are lost."""
