from pathlib import Path

import pytest

from reshape.machine import resources
from reshape.machine.resources import GIB, Cores, Memory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 8388608 kB\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_memory_without_limit(root: Path) -> None:
    assert resources.memory(root) == Memory(16 * GIB, 8 * GIB, None)
    assert resources.memory(root).usable == 16 * GIB


def test_limits_of_unified_cgroups_bind_from_above(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/outer/inner\n")
    write(root / "sys/fs/cgroup/outer/memory.max", str(2 * GIB))
    write(root / "sys/fs/cgroup/outer/cpu.max", "150000 100000")
    write(root / "sys/fs/cgroup/outer/inner/memory.max", "max")
    write(root / "sys/fs/cgroup/outer/inner/cpu.max", "max 100000")
    assert resources.memory(root).usable == 2 * GIB
    assert resources.cores(root).quota == 1.5


def test_limits_of_old_cgroups(root: Path) -> None:
    write(root / "proc/self/cgroup", "9:name=systemd:/\n4:memory:/box\n3:cpu,cpuacct:/box\n")
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    write(root / "sys/fs/cgroup/memory/box/memory.limit_in_bytes", str(3 * GIB))
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    write(root / "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000")
    write(root / "sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000")
    assert resources.memory(root).limit == 3 * GIB
    assert resources.cores(root).quota == 0.5


def test_no_limit_in_old_cgroups_is_no_limit(root: Path) -> None:
    write(root / "proc/self/cgroup", "4:memory:/\n")
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    assert resources.memory(root).limit is None


def test_path_that_only_the_host_sees(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/host/only\n")
    write(root / "sys/fs/cgroup/memory.max", str(GIB))
    assert resources.memory(root).limit == GIB


@pytest.mark.parametrize(
    ("cores", "slots"),
    [(Cores(8, None), 8), (Cores(8, 1.5), 2), (Cores(8, 0.5), 1), (Cores(2, 4.0), 2), (Cores(8, 3.0), 3)],
)
def test_slots_as_a_jvm_counts_them(cores: Cores, slots: int) -> None:
    assert cores.slots == slots


def test_local_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/one,/two")
    assert resources.spark_local_directories() == [Path("/one"), Path("/two")]
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert resources.spark_local_directories() == [Path("/tmp")]


def test_missing_directory_has_no_free_bytes(tmp_path: Path) -> None:
    assert resources.free_bytes(tmp_path) > 0
    with pytest.raises(OSError, match="missing or not writable"):
        resources.free_bytes(tmp_path / "gone")


def test_loopback() -> None:
    assert resources.loopback_port() > 0
