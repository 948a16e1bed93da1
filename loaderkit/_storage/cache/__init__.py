"""A cache on disk of chunks of records, shared by the processes of a host."""
