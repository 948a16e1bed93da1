"""Compares loaderkit with the bare loop and with other loaders, on the same work, in the same run.

Words of this package:

    workload    a module of `workloads/`: the data, the read and transform functions, and one benchmark or several
    benchmark   what is measured, the contenders, and the comparisons
    pipeline    source, steps, batch size: the work itself, which is the same for every contender
    contender   one way to run a pipeline: a loader with its settings, or a loop written by hand
    peer        the library behind a contender, and the module of `peers/` that turns a pipeline into its loader
    round       every contender once, each in a fresh process; ratios are taken inside a round
"""
