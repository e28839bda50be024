"""The documentation's site builds without a warning, holds every page, and the README leads to what it should."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def pages() -> list[Path]:
    return sorted([ROOT / "README.md", *DOCS.rglob("*.md")])


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_has_its_place_in_the_site() -> None:
    named = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text()))
    named |= {f"faults/{target}" for target, _ in LINK.findall((DOCS / "faults" / "index.md").read_text()) if "/" not in target}
    assert {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - named == set()


def test_every_module_of_the_reference_exists() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        modules = re.findall(r"(?m)^::: (\S+)$", page.read_text())
        assert modules
        for module in modules:
            assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), f"{page.name}: {module}"


def test_the_readme_names_every_page_of_operation() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text())}
    for name in ("bringup", "calibrate", "configuration", "motor_boards", "protocol", "safety", "security", "soak", "view"):
        assert f"docs/{name}.md" in linked


@pytest.mark.long
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("building the site takes mkdocs and mkdocstrings")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=280.0, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    reference = (tmp_path / "site" / "reference" / "interfaces.html").read_text()
    assert "onboard.ports" in reference and "ActuatorSink" in re.sub(r"<[^>]+>", "", reference)
