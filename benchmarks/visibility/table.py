"""`python -m benchmarks visibility`: what each library says of the same three pipelines."""

import subprocess
import sys
from collections.abc import Callable

from .pipelines import PIPELINES

LIBRARIES = ("loaderkit", "grain", "tfdata")


def run(peers: set[str], *, smoke: bool, say: Callable[[str], None]) -> str:
    """Their words, a section for each pipeline.

    Args:
        peers: that take part beside loaderkit.
        smoke: whether only one pipeline is tried, for a second.
        say: takes progress.
    """
    lines = []
    for pipeline in PIPELINES[:1] if smoke else PIPELINES:
        what = f"A read waits {pipeline.read:g} ms, decoding computes {pipeline.decode:g} ms"
        lines += [
            f"## {pipeline.name}",
            f"{what}, a step takes {pipeline.step:g} ms; one worker, batches of 8.",
        ]
        for library in LIBRARIES:
            if library != "loaderkit" and library not in peers:
                continue
            say(f"{pipeline.name}: {library}")
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.visibility",
                    library,
                    pipeline.name,
                    "1" if smoke else "15",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            text = done.stdout.strip() if done.returncode == 0 else f"failed: {done.stderr.strip()[-300:]}"
            lines += [f"### {library}", "```", text, "```"]
    return "\n".join(lines)
