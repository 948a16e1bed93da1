"""Where the records of a set of shards lie: an index in one mapped file, how it is built, found and checked."""
