"""Scripts written for Grain, run with it and with loaderkit, the import line apart: same batches, time of both."""
