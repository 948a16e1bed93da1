"""What the system says: processors, memory, and the environment of a worker."""

import os
import select
import subprocess
from pathlib import Path

import pytest
from runtime_loaders import numbers

from loaderkit._base.system import platform, resources

GIB = 1 << 30
MEMINFO = "MemTotal: 9000000 kB\nMemAvailable: 8388608 kB\nSwapFree: 0 kB\n"  # 8 GiB available
V2 = {"proc/self/cgroup": "0::/job/step\n"}
V1 = {"proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n0::/\n"}
GROUP = "sys/fs/cgroup/"


def v2_memory(path: str, most: object, used: int, cache: int = 0) -> dict[str, str]:
    return {
        f"{GROUP}{path}memory.max": f"{most}\n",
        f"{GROUP}{path}memory.current": f"{used}\n",
        f"{GROUP}{path}memory.stat": f"anon 1\ninactive_file {cache - cache // 2}\nactive_file {cache // 2}\n",
    }


MEMORY = {
    "nothing is known": ({}, None),
    "the kernel alone": ({"proc/meminfo": MEMINFO}, 8 * GIB),
    "a group without a limit": (
        {"proc/meminfo": MEMINFO, **V2, **v2_memory("job/step/", "max", GIB)},
        8 * GIB,
    ),
    "its own group": ({"proc/meminfo": MEMINFO, **V2, **v2_memory("job/step/", 4 * GIB, GIB)}, 3 * GIB),
    "the group above": (
        {**V2, **v2_memory("job/step/", 4 * GIB, GIB), **v2_memory("job/", 3 * GIB, 2 * GIB)},
        GIB,
    ),
    "a container that sees itself as the root": ({**V2, **v2_memory("", 2 * GIB, GIB)}, GIB),
    "page cache gives way": ({**V2, **v2_memory("job/step/", 2 * GIB, 2 * GIB, cache=GIB)}, GIB),
    "used up": ({**V2, **v2_memory("job/step/", GIB, 2 * GIB)}, 0),
    "the older hierarchy": (
        {
            **V1,
            f"{GROUP}memory/job/memory.limit_in_bytes": f"{4 * GIB}\n",
            f"{GROUP}memory/job/memory.usage_in_bytes": f"{3 * GIB}\n",
            f"{GROUP}memory/job/memory.stat": f"inactive_file 5\ntotal_inactive_file {GIB}\ntotal_active_file 0\n",
        },
        2 * GIB,
    ),
    "unreadable": ({"proc/meminfo": "garbage", "proc/self/cgroup": "garbage\n"}, None),
}

CPUS = {
    "nothing is known": ({}, None),
    "without a quota": ({**V2, f"{GROUP}job/step/cpu.max": "max 100000\n"}, None),
    "a quota": ({**V2, f"{GROUP}job/step/cpu.max": "400000 100000\n"}, 4),
    "part of a processor": ({**V2, f"{GROUP}job/step/cpu.max": "50000 100000\n"}, 1),
    "rounded up": ({**V2, f"{GROUP}job/step/cpu.max": "250000 100000\n"}, 3),
    "the group above": (
        {**V2, f"{GROUP}job/step/cpu.max": "800000 100000\n", f"{GROUP}job/cpu.max": "200000 100000\n"},
        2,
    ),
    "the older hierarchy": (
        {
            **V1,
            f"{GROUP}cpu/job/cpu.cfs_quota_us": "300000\n",
            f"{GROUP}cpu/job/cpu.cfs_period_us": "100000\n",
        },
        3,
    ),
    "the older one without a quota": (
        {**V1, f"{GROUP}cpu/job/cpu.cfs_quota_us": "-1\n", f"{GROUP}cpu/job/cpu.cfs_period_us": "100000\n"},
        None,
    ),
}


def lay_out(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("case", MEMORY)
def test_memory_left_is_the_tightest_limit(tmp_path, case):
    """Of the kernel and of every group above this process."""
    files, expected = MEMORY[case]
    lay_out(tmp_path, files)
    assert resources.memory_left(str(tmp_path)) == expected


@pytest.mark.parametrize("case", CPUS)
def test_the_quota_is_the_tightest_of_the_groups(tmp_path, case):
    """Rounded up, never 0."""
    files, expected = CPUS[case]
    lay_out(tmp_path, files)
    assert resources.cpu_quota(str(tmp_path)) == expected


def test_this_machine_has_both():
    """Affinity bounds the processors; memory is between nothing and all."""
    assert 1 <= resources.available_cpus() <= len(os.sched_getaffinity(0))
    left = resources.available_memory()
    assert left is None or 0 < left < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_a_descriptor_of_a_process_tells_its_end():
    """One that is gone has none."""
    with subprocess.Popen(["true"]) as process:
        fd = platform.open_process(process.pid)
        assert fd is not None
        assert select.select([fd], [], [], 20.0)[0] == [fd]  # readable when it has ended
        os.close(fd)
    assert platform.open_process(process.pid) is None


def look_around(_: int) -> dict[str, object]:
    import cv2

    return {
        "opencv": cv2.getNumThreads(),
        "accelerators": [os.environ[name] for name in os.environ if name.endswith("VISIBLE_DEVICES")],
        "jax": os.environ["JAX_PLATFORMS"],
        "threads": {value for name, value in os.environ.items() if name.endswith("NUM_THREADS")},
        "signals": [
            line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "SigBlk" in line
        ],
    }


@pytest.mark.slow
def test_a_worker_sees_no_accelerator_and_works_with_one_thread(monkeypatch):
    """Whatever the trainer's environment says; libraries that are imported later included."""
    pytest.importorskip("cv2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    with numbers(1, look_around, worker_count=1) as loader:
        (seen,) = loader
    assert seen == {
        "opencv": 1,
        "accelerators": ["", "", ""],
        "jax": "cpu",
        "threads": {"1"},
        "signals": ["0" * 16],
    }
    assert os.environ["JAX_PLATFORMS"] == "cuda"


@pytest.mark.slow
def test_jax_in_a_worker_has_the_cpu_alone():
    """A transform that uses JAX computes on the CPU and takes nothing of an accelerator."""
    pytest.importorskip("jax")

    def on_jax(x: int) -> list[str]:
        import jax

        return sorted({device.platform for device in jax.devices()})

    with numbers(1, on_jax, worker_count=1) as loader:
        assert list(loader) == [["cpu"]]
