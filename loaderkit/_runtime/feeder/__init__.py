"""The feeder: a process that fetches the chunks of coming records into a loader's cache."""
