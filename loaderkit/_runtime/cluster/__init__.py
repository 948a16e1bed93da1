"""Agreement between the processes of a run, over a store that all of them share."""
