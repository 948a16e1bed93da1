"""One library and one pipeline, in a process of its own."""

import importlib
import sys

from .pipelines import PIPELINES

if __name__ == "__main__":
    library, name, seconds = sys.argv[1:]
    (pipeline,) = (each for each in PIPELINES if each.name == name)
    said = importlib.import_module(f"benchmarks.visibility.by_{library}").said
    sys.stdout.write(said(pipeline, float(seconds)) + "\n")
