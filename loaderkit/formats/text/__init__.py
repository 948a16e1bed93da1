"""Text files: lines, JSON Lines, CSV."""
