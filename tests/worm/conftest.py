"""Compiled kernels of the contact planner: a kernel's cache does not see changes in the files it imports from."""

import re
from pathlib import Path

import pytest

import onboard.planning.contact as package


def pytest_configure() -> None:
    """Removes the cached kernels of every module that imports, directly or not, a file newer than the cache."""
    folder = Path(package.__file__).parent
    imports = {
        path.stem: set(re.findall(r"^from onboard\.planning\.contact\.(\w+) import", path.read_text(), re.MULTILINE))
        for path in folder.glob("*.py")
    }
    for name, direct in imports.items():
        known, todo = {name}, set(direct)
        while todo:
            other = todo.pop()
            if other not in known:
                known.add(other)
                todo |= imports.get(other, set())
        newest = max((folder / f"{other}.py").stat().st_mtime for other in known)
        cached = list((folder / "__pycache__").glob(f"{name}.*.nbi"))
        if any(path.stat().st_mtime < newest for path in cached):
            for path in (folder / "__pycache__").glob(f"{name}.*.nb?"):
                path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """Folder of the checkout."""
    return Path(__file__).resolve().parents[2]
