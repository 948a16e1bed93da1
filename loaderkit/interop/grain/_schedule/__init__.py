"""The order in which Grain's workers take turns, computed for any number of ours."""
