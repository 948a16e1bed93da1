"""What loaders say of where time goes: the same pipelines, and each library's own words. It never interprets them."""
