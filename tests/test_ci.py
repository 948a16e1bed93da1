"""What .ci/run asks before it installs PyTorch: only a build for CPUs will do."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("cpu_torch", ROOT / ".ci" / "cpu_torch.py")
cpu_torch = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cpu_torch)

PLAIN = ["filelock", "sympy>=1.13.3", 'opt-einsum>=3.3; extra == "opt-einsum"']
CUDA = 'nvidia-cudnn-cu13==9.26.0.51; platform_system == "%s"'


@pytest.mark.parametrize(
    ("listed", "version"),
    [
        (
            "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0+cpu, 2.13.0, 2.9.1+cpu\n  LATEST: 2.15.0",
            "2.13.0+cpu",
        ),
        ("torch (2.15.0)\nAvailable versions: 2.15.0rc1+cpu", "2.15.0rc1+cpu"),
        ("torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.0+cu130\n  INSTALLED: 2.13.0+cpu", None),
        ("", None),
    ],
)
def test_the_newest_version_for_cpus_is_chosen(listed, version):
    """Of those that can be had; the one that is installed may be of another place."""
    assert cpu_torch.labelled(listed) == version


def report(*requires):
    return json.dumps({"install": [{"metadata": {"name": "torch", "requires_dist": [*requires]}}]})


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (report(*PLAIN), True),
        (report(*PLAIN, CUDA % "Nowhere"), True),
        (report(*PLAIN, 'cuda-toolkit[cublas]==13.2.2; python_version > "3"'), False),
        (report(*PLAIN, "nvidia-nccl-cu13"), False),
        (report(*PLAIN, "triton~=3.9.0"), False),
        ('{"install": []}', False),
        ("not JSON", False),
        ("", False),
    ],
)
def test_a_plain_wheel_is_taken_only_where_it_asks_for_nothing_of_cuda(text, is_one):
    """On this machine; what can't be found out, or not in time, counts as no."""
    pytest.importorskip("pip", reason="pip reads the requirements")
    assert cpu_torch.is_for_cpus(text) is is_one


def test_a_question_that_isnt_answered_in_time_is_a_no():
    """A registry that hangs costs the limit, not the run."""
    assert cpu_torch.pip(0.0, "--version") == ""


def test_the_run_asks():
    """The script installs what was answered, and goes on without."""
    assert "python .ci/cpu_torch.py" in (ROOT / ".ci/run").read_text()
    assert ".ci/cpu_torch.py" in (ROOT / "CONTRIBUTING.md").read_text()
