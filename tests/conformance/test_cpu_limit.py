"""The CPU limit of a container: files of control groups of both versions, and the number of threads."""

from __future__ import annotations

import os

import pytest

from craftc._common import threads
from craftc._common.threads import cpu_limit


def groups(root, cgroup, files):
    """Write proc/self/cgroup and files below sys/fs/cgroup."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V1 = "12:pids:/docker/a\n4:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a\n"
CASES = {
    "no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, None),
    "no file": ("0::/user.slice\n", {}, None),
    "not a number": ("0::/\n", {"cpu.max": "what 100000\n"}, None),
    "period 0": ("0::/\n", {"cpu.max": "100000 0\n"}, None),
    "one processor and a half": ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
    "a tenth": ("0::/\n", {"cpu.max": "10000 100000\n"}, 1),
    "default period": ("0::/\n", {"cpu.max": "300000 100000"}, 3),
    "own group": ("0::/a/b\n", {"a/b/cpu.max": "200000 100000\n", "a/cpu.max": "max 100000\n"}, 2),
    "group around it": ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "100000 100000\n"}, 1),
    "path of the host": ("0::/kubepods/pod/x\n", {"cpu.max": "200000 100000\n"}, 2),
    "version 1": (
        V1,
        {"cpu/docker/a/cpu.cfs_quota_us": "250000\n", "cpu/docker/a/cpu.cfs_period_us": "100000\n"},
        3,
    ),
    "version 1, no limit": (
        V1,
        {"cpu/docker/a/cpu.cfs_quota_us": "-1\n", "cpu/docker/a/cpu.cfs_period_us": "100000\n"},
        None,
    ),
    "version 1, path of the host": (
        V1,
        {"cpu,cpuacct/cpu.cfs_quota_us": "50000\n", "cpu,cpuacct/cpu.cfs_period_us": "50000\n"},
        1,
    ),
    "both versions": (
        "4:cpu:/\n0::/\n",
        {"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"},
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_limit_of_control_groups(tmp_path, name):
    cgroup, files, expected = CASES[name]
    assert cpu_limit(groups(tmp_path, cgroup, files)) == expected


def test_no_control_groups(tmp_path):
    assert cpu_limit(tmp_path) is None


@pytest.mark.parametrize(("limit", "expected"), [(None, 6), (2, 2), (99, 6)])
def test_threads_respect_the_limit(monkeypatch, limit, expected):
    if threads.effective_n_threads(2) == 1:
        pytest.skip("built without OpenMP")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(threads, "cpu_limit", lambda: limit)
    assert threads.effective_n_threads() == threads.effective_n_threads(-1) == expected
    assert threads.effective_n_threads(7) == 7  # asked for by name
