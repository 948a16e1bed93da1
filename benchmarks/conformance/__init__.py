"""What loaders do when something goes wrong, as a table: `python -m benchmarks conformance`.

A *subject* (one module in `subjects/`) makes that library's loader of a list of numbers. A *probe* (`probes.py`) does
something to it and says what came of it. Each runs in a process of its own, with a time limit: who is still
running then hangs.
"""
