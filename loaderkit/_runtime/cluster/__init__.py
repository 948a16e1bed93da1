"""Agreement between the processes of a run, over a store that they share."""
