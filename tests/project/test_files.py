"""Rules about the project's own files."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from .sources import ROOT

# Written in two parts, or this file would break its own rule.
REGISTRY_HOSTS = tuple(
    f"{name}.{domain}"
    for name, domain in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("archive.ubuntu", "com"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("anaconda", "org"),
        ("repo1.maven", "org"),
        ("repo.maven.apache", "org"),
    )
)


def project_files() -> Iterator[Path]:
    """Files that git has or would add; all but hidden and generated ones where the tree is no repository."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        tops = [path for path in ROOT.iterdir() if not path.name.startswith(".") or path.name == ".ci"]
        paths = [path for top in tops for path in (top, *top.rglob("*")) if "__pycache__" not in path.parts]
    return (path for path in paths if path.is_file())


def named_hosts(text: str) -> list[str]:
    return [host for host in REGISTRY_HOSTS if host in text.lower()]


def test_no_file_names_a_registry_host() -> None:
    found = {
        str(path.relative_to(ROOT)): hosts
        for path in project_files()
        if (hosts := named_hosts(path.read_text(errors="ignore")))
    }
    assert found == {}


def test_registry_hosts_are_recognised() -> None:
    assert named_hosts("--index-url https://" + "PyPI" + ".org/simple") == ["pypi" + ".org"]
