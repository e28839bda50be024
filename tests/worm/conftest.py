"""Compiled kernels of the contact planner: a kernel's cache does not see changes in the files it imports from."""

from pathlib import Path

import pytest

import onboard.planning.contact as package


def pytest_configure() -> None:
    folder = Path(package.__file__).parent
    newest = max(path.stat().st_mtime for path in folder.glob("*.py"))
    cache = folder / "__pycache__"
    if any(path.stat().st_mtime < newest for path in cache.glob("*.nbi")):
        for path in [*cache.glob("*.nbi"), *cache.glob("*.nbc")]:
            path.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """Folder of the checkout."""
    return Path(__file__).resolve().parents[2]
