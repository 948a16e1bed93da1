"""`python -m tests.soak --minutes N`: random pipelines under random faults, every batch checked.

A trainer in a process of its own iterates a random pipeline and writes down what it gets. Meanwhile its workers, and
the keepers of those that count as of other hosts, are killed (SIGKILL, one or all) and stopped for a while (SIGSTOP,
SIGCONT), and so is the trainer itself; a killed one is followed by another that restores the last saved position, with
another number and kind of workers. What was written
down is then compared with the planned stream, as a naive interpreter computes it. Exit code 0 if nothing differed and
nothing was left behind.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent))

from soak_pipelines import expected_of, pipeline_of
from soak_processes import descendants_of, descriptors_of, left_after, memory_of, send

HERE = Path(__file__).parent
SOON_SECONDS = 3.0  # for workers to end after their trainer
ORPHAN_SECONDS = 60.0  # for the same where everything else has the processor first
STUCK_SECONDS = 900.0  # without a line in the journal, on a machine that does other things first


@dataclass
class Tally:
    """What happened in a soak."""

    pipelines: int = 0
    batches: int = 0
    looked_at_again: int = 0
    workers_killed: int = 0
    workers_stopped: int = 0
    trainers_killed: int = 0
    trainers_stopped: int = 0
    restores: int = 0
    remote_workers: int = 0
    gave_up: int = 0
    mismatches: int = 0
    failures: int = 0
    alive_after_3_s: int = 0
    orphans: int = 0
    peak_memory_mb: int = 0
    peak_descriptors: int = 0
    descriptors_gained: int = 0


class Soak:
    """A soak until a time.

    Args:
        seconds: how long.
        seed: of everything that is random, but for the order in which the machine runs things.
        quiet: no progress bar.
    """

    def __init__(self, seconds: float, seed: int, quiet: bool) -> None:
        self.tally = Tally()
        self._draw = random.Random(seed)
        self._begun = time.monotonic()
        self._until = self._begun + seconds
        self._bar = tqdm(
            total=round(seconds),
            unit="s",
            disable=quiet,
            bar_format="{l_bar}{bar}| {n:.0f}/{total} s{postfix}",
        )

    def run(self) -> Tally:
        """One pipeline after the other; the last one is left where it is when time is up."""
        while not self._over(None):
            number = self._draw.randrange(2**40)
            expected = expected_of(pipeline_of(number))
            if expected is not None:
                with tempfile.TemporaryDirectory(prefix="loaderkit-soak-") as folder:
                    self._pipeline(number, expected, Path(folder))
        self._bar.close()
        return self.tally

    def _over(self, folder: Path | None) -> bool:
        """Whether time is up; not before there was a batch to look at, however busy the machine."""
        some = self.tally.batches or (folder is not None and _size(folder / "journal"))
        return time.monotonic() > self._until and bool(some)

    def _pipeline(self, number: int, expected: list[str], folder: Path) -> None:
        self.tally.pipelines += 1
        session, ended = 0, False
        while not ended and not self._over(folder):
            before = _size(folder / "journal")
            ended = self._session(number, session, folder)
            ended = self._read(number, expected, folder, before) or ended
            session += 1

    # --- one trainer --------------------------------------------------------------------------------------------

    def _session(self, number: int, session: int, folder: Path) -> bool:
        """A trainer from its start to its end; whether it failed, and the pipeline had better be left alone."""
        with (folder / "errors").open("w+b") as errors:
            trainer = subprocess.Popen(
                [sys.executable, str(HERE / "soak_trainer.py"), str(number), str(session), str(folder)],
                stdout=errors,
                stderr=errors,
            )
            try:
                done = self._disturb(trainer, folder)
            finally:
                workers = descendants_of(trainer.pid)
                trainer.kill()
                code = trainer.wait()
                self._count_orphans(workers)
            if done is None and code != 0:
                errors.seek(0)
                self._complain(f"pipeline {number}, session {session}: exit code {code}", errors.read())
                return True
            return done is False

    def _disturb(self, trainer: "subprocess.Popen[bytes]", folder: Path) -> bool | None:
        """Faults until the trainer ends: None if by itself, True if it was killed, False if it was stuck."""
        quiet_since, size = time.monotonic(), 0
        # Workers of other hosts take seconds to come.
        faults_from = quiet_since + self._draw.choice([0.0, 0.0, 20.0])
        while True:
            try:
                trainer.wait(self._draw.expovariate(1.5))
            except subprocess.TimeoutExpired:
                pass
            else:
                return None
            self._measure(trainer.pid)
            now = time.monotonic()
            if _size(folder / "journal") != size:
                quiet_since, size = now, _size(folder / "journal")
            if now - quiet_since > STUCK_SECONDS:
                self._complain(f"no batch for {STUCK_SECONDS:.0f} s", b"")
                return False
            if self._over(folder):
                return True
            if now >= faults_from and self._fault(trainer.pid):
                return True

    def _fault(self, trainer: int) -> bool:
        """Causes one fault, or none; whether it ended the trainer."""
        draw, tally = self._draw, self.tally
        workers = descendants_of(trainer)
        what = draw.random()
        if what < 0.45 and workers:
            victims = [draw.choice(workers)] if draw.random() < 0.7 else workers
            tally.workers_killed += sum(send(pid, SIGKILL) for pid in victims)
        elif what < 0.7 and workers:
            victim = draw.choice(workers)
            tally.workers_stopped += send(victim, SIGSTOP)
            time.sleep(draw.random() * 0.5)
            send(victim, SIGKILL if draw.random() < 0.2 else SIGCONT)
        elif what < 0.8:
            tally.trainers_stopped += send(trainer, SIGSTOP)
            time.sleep(draw.random() * 0.5)
            send(trainer, SIGCONT)
        elif what < 0.92:
            tally.trainers_killed += send(trainer, SIGKILL)
            self._count_orphans(workers)
            return True
        return False

    def _count_orphans(self, workers: list[int]) -> None:
        late = left_after(workers, SOON_SECONDS)
        self.tally.alive_after_3_s += len(late)
        self.tally.orphans += len(left_after(late, ORPHAN_SECONDS))

    # --- what it wrote down -------------------------------------------------------------------------------------

    def _read(self, number: int, expected: list[str], folder: Path, begin: int) -> bool:
        """Compares what a session wrote with the plan; whether the stream ended."""
        tally, held = self.tally, []
        text = (folder / "journal").read_bytes()[begin:].decode() if _size(folder / "journal") else ""
        following: int | None = None  # the step that has to come, once one is known
        for line in text.splitlines():
            kind, _, rest = line.partition(" ")
            match kind:
                case "batch" | "kept":
                    step, digest = int(rest.split()[0]), rest.split()[1]
                    if kind == "batch":
                        tally.batches += 1
                        wrong = following not in (None, step)
                        following = step + 1
                    else:
                        tally.looked_at_again += 1
                        wrong = False
                    if wrong or step >= len(expected) or expected[step] != digest:
                        tally.mismatches += 1
                        self._complain(
                            f"pipeline {number}: {line}, after step {following}", b"", failure=False
                        )
                case "restore":
                    tally.restores += 1
                    following = int(rest)
                case "arrived":
                    tally.remote_workers += int(rest)
                case "gave-up":
                    tally.gave_up += 1
                    following = None
                case "held":
                    held.append(int(rest))
                    following = None
                case "end":
                    if int(rest) != len(expected):
                        tally.mismatches += 1
                        self._complain(f"pipeline {number}: {line} of {len(expected)}", b"", failure=False)
        if len(held) > 1:
            tally.descriptors_gained = max(tally.descriptors_gained, held[-1] - held[0])
        self._show()
        return "\nend " in f"\n{text}"

    def _measure(self, trainer: int) -> None:
        tally = self.tally
        tally.peak_memory_mb = max(tally.peak_memory_mb, memory_of(trainer) >> 20)
        tally.peak_descriptors = max(tally.peak_descriptors, descriptors_of(trainer))
        self._show()

    def _show(self) -> None:
        tally = self.tally
        done = min(time.monotonic() - self._begun, self._bar.total)
        self._bar.set_postfix_str(
            f"{tally.batches} batches, {tally.workers_killed + tally.trainers_killed} kills, "
            f"{tally.restores} restores, {tally.mismatches} mismatches",
            refresh=False,
        )
        self._bar.update(done - self._bar.n)

    def _complain(self, text: str, output: bytes, *, failure: bool = True) -> None:
        self.tally.failures += failure
        tqdm.write(f"{text}\n{output.decode(errors='replace')}", file=sys.stderr)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def main() -> int:
    """Runs a soak and prints what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--seed", type=int, default=None, help="of the pipelines and faults; the clock's if not given"
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    asked = parser.parse_args()
    seed = time.time_ns() % 2**32 if asked.seed is None else asked.seed
    tally = Soak(asked.minutes * 60, seed, asked.quiet).run()
    figures = {"minutes": asked.minutes, "seed": seed, **asdict(tally)}
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):20} {value:>12,}")
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if tally.mismatches or tally.orphans or tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
