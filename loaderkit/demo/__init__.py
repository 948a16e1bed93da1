"""`loaderkit demo`: a training run that is killed and resumes exactly. `train.py` is the part to copy."""
