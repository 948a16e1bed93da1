"""How loaders behave under faults, as a table: `python -m benchmarks conformance`.

A *subject* (one module in `subjects/`) makes that library's loader of a list of numbers. A *probe* (`probes.py`) causes
a fault and gives the loader's behaviour as the answer. Each probe runs in a process of its own; one that exceeds its
time limit is reported as "hangs".
"""
