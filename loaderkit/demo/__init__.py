"""A training run that is killed and goes on exactly: `loaderkit demo`. `train.py` is the part to copy."""
