"""Runs pipelines with the installed Grain: configurations as JSON on standard input, what they told on standard output.

A program of its own: Grain's worker processes want a main module that they can import again, and parsed flags.
"""

import json
import sys


def main() -> None:
    from absl import flags, logging

    flags.FLAGS.mark_as_parsed()
    logging.set_verbosity(logging.FATAL)
    import grain.python
    from grain_pipelines import loader_of, story

    told = [story(iter(loader_of(grain.python, config)), 40) for config in json.load(sys.stdin)]
    print(json.dumps(told))


if __name__ == "__main__":
    main()
