"""Levels of x86-64 processors: variables of a new process by which its libraries compute as any such processor does.

numpy, OpenCV and the C library choose their loops by the processor's features: they are told to leave out those above
the level. OpenBLAS and OpenCV's IPP get kernels by name. All read it when they are loaded, so a process that has loaded
them can't be levelled.
"""

import platform
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class ProcessorLevel(NamedTuple):
    features: str  # that it has beyond the level below, by numpy's names
    blas: str  # the kernels of OpenBLAS
    ipp: str  # those of IPP
    libc: str  # what glibc leaves out, of which the code of its mathematics depends


LEVELS = {
    "x86-64-v2": ProcessorLevel(
        "SSE SSE2 SSE3 SSSE3 SSE41 POPCNT SSE42 CX16 LAHF X86_V2", "Nehalem", "sse42", "-AVX,-AVX2,-FMA,-FMA4"
    ),
    "x86-64-v3": ProcessorLevel("AVX F16C FMA3 AVX2 BMI BMI2 LZCNT MOVBE X86_V3", "Haswell", "avx2", ""),
    "x86-64-v4": ProcessorLevel(
        "AVX512F AVX512CD AVX512BW AVX512DQ AVX512VL AVX512_SKX X86_V4", "SkylakeX", "avx512", ""
    ),
}

_NUMPY: Any = import_module("numpy._core._multiarray_umath")
_FEATURES: dict[str, bool] = _NUMPY.__cpu_features__
# OpenCV's name of what a feature enables there. One that the processor lacks would be a line on stderr.
_OPENCV = {
    "AVX": "AVX",
    "F16C": "FP16",
    "FMA3": "FMA3",
    "AVX2": "AVX2",
    "AVX512CD": "AVX512-COMMON",
    "AVX512BW": "AVX512-SKX",
    "AVX512VNNI": "AVX512-CLX",
    "AVX512VBMI": "AVX512-CNL",
    "AVX512BITALG": "AVX512-ICL",
}


def present_level() -> str | None:
    """The highest level that this processor has, None on other architectures."""
    return next((level for level in reversed(LEVELS) if _is_x86_64() and not _lacking(level)), None)


def checked_level(level: str | None) -> str | None:
    """The level; ValueError where it is none, or where this processor lacks a feature of it."""
    if level is None:
        return None
    if level not in tuple(LEVELS):
        raise ValueError(f"cpu: expected None or one of {', '.join(map(repr, LEVELS))}, got {level!r}")
    if not _is_x86_64():
        raise ValueError(
            f"cpu: expected None on {platform.machine()}, for levels are of x86-64 processors, got {level!r}"
        )
    if lacking := _lacking(level):
        raise ValueError(
            f"cpu: expected a level that this processor has, at most {present_level()!r}, got {level!r}: numpy finds "
            f"no {', '.join(lacking)} here"
        )
    return level


def levelled(level: str, environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for processes of a level.

    What it switches off already stays off, and OpenBLAS's and IPP's kernels stay where it names them.

    >>> levelled("x86-64-v3", {"OPENBLAS_CORETYPE": "Zen"})["OPENBLAS_CORETYPE"]
    'Zen'
    """
    names = _features(level)
    # What is switched off for numpy of this process, OpenCV may still find.
    known = {} if "NPY_DISABLE_CPU_FEATURES" in environment else _FEATURES
    off = {
        "NPY_DISABLE_CPU_FEATURES": [name for name in _NUMPY.__cpu_dispatch__ if name not in names],
        "OPENCV_CPU_DISABLE": [
            theirs for ours, theirs in _OPENCV.items() if ours not in names and known.get(ours, True)
        ],
    }
    found = {"OPENBLAS_CORETYPE": LEVELS[level].blas, "OPENCV_IPP": LEVELS[level].ipp, **environment}
    found.pop("NPY_ENABLE_CPU_FEATURES", None)  # numpy takes one of the two
    for variable, left_out in off.items():
        found[variable] = ",".join(filter(None, [environment.get(variable), *left_out]))
    tunables = dict(each.split("=", 1) for each in found.get("GLIBC_TUNABLES", "").split(":") if "=" in each)
    hwcaps = tunables.get("glibc.cpu.hwcaps"), LEVELS[level].libc
    tunables["glibc.cpu.hwcaps"] = ",".join(filter(None, hwcaps))
    found["GLIBC_TUNABLES"] = ":".join(f"{name}={value}" for name, value in tunables.items() if value)
    return found


def _is_x86_64() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def _features(level: str) -> list[str]:
    upto = [*LEVELS][: [*LEVELS].index(level) + 1]
    return [name for each in upto for name in LEVELS[each].features.split()]


def _lacking(level: str) -> list[str]:
    # Names with "_" are of groups: which there are depends on numpy's version.
    absent = [name for name in _features(level) if not _FEATURES.get(name, True)]
    return [name for name in absent if "_" not in name or name in _NUMPY.__cpu_dispatch__]
