"""Tables: Parquet, Arrow, and those of other libraries."""
