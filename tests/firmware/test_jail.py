"""A virtual board cannot leave its directory, whatever the firmware or a flasher asks it to remove."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sim.boards.jail import BoardConfig, prepare
from tests.firmware.board_script import ScriptBoard, run_script
from tests.firmware.conftest import wait_until

ATTACK = """
import json, os, sys

def attempt(name, call):
    try:
        results[name] = repr(call())
    except Exception as error:
        results[name] = type(error).__name__

def read(path):
    with open(path) as file:
        return file.read(20)

def write(path):
    with open(path, "w") as file:
        file.write("gone")

outside = sys.stdin.readline().strip()
results = {}
for way in (outside, "/.." * 12 + outside, ".." + "/.." * 12 + outside, "/sim/../../../../../../../.." + outside):
    attempt("remove " + way, lambda: os.remove(way))
    attempt("read " + way, lambda: read(way))
    attempt("write " + way, lambda: write(way))
    attempt("rename " + way, lambda: os.rename(way, "/stolen"))
    attempt("stat " + way, lambda: os.stat(way))
attempt("rmdir /", lambda: os.rmdir("/"))
attempt("list ..", lambda: os.listdir("/.."))
attempt("chdir ..", lambda: os.chdir("/.."))
attempt("etc", lambda: read("/etc/passwd"))

def remove_all(path):  # what a flasher does with ":/"
    for entry in os.ilistdir(path):
        full = (path if path != "/" else "") + "/" + entry[0]
        if entry[1] & 0x4000:
            remove_all(full)
            os.rmdir(full)
        else:
            os.remove(full)

attempt("remove everything", lambda: remove_all("/"))
attempt("umount /", lambda: os.umount("/"))
attempt("list after umount", lambda: os.listdir("/"))
print(json.dumps(results))
"""


@pytest.mark.parametrize("as_root", [False, True], ids=["unprivileged user", "interpreter's jail and chroot as root"])
def test_nothing_outside_the_jail_can_be_read_written_or_removed(tmp_path: Path, as_root: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    victim = outside / "precious"
    victim.write_text("still here")
    victim.chmod(0o666)
    outside.chmod(0o777)
    board = ScriptBoard(tmp_path, ATTACK)
    board.start(unprivileged=not as_root)
    results = json.loads(board.output(str(victim) + "\n").splitlines()[-1])
    everything = results.pop("remove everything")
    assert results.pop("list after umount") in ("[]", "OSError")  # nothing is left to see
    assert set(results.values()) <= {"OSError"}, results
    assert everything == "None"
    assert victim.read_text() == "still here"
    assert not (board.jail / "main.py").exists()  # what it may remove is its own


def test_the_interpreters_own_jail_holds_without_chroot(tmp_path: Path) -> None:
    """Where the kernel allows no chroot the file system shim is the wall: run the attack against it alone."""
    victim = tmp_path / "precious"
    victim.write_text("still here")
    board = tmp_path / "jail"
    shim = (Path(__file__).parents[2] / "sim" / "boards" / "shims" / "jail.py").read_text()
    inner = board / "inner"
    inner.mkdir(parents=True)
    (inner / "main.py").write_text("# inside")
    source = (
        shim
        + """
import os
fs = JailFs("/inner")
for path in ("/../precious", "../precious", "/a/../../identity.json", "/../identity.json", ".."):
    for call in (fs.remove, fs.stat, fs.rmdir, fs.mkdir, lambda p: fs.open(p, "w"), lambda p: list(fs.ilistdir(p)), fs.chdir):
        try:
            call(path)
            print("escaped by", path)
        except OSError as error:
            assert error.errno == errno.EPERM, error
assert fs.stat("/main.py") and fs.stat("main.py") and fs.stat("/./main.py")
fs.mkdir("/sub")
fs.chdir("/sub")
assert fs.getcwd() == "/sub"
with fs.open("file", "w") as file:
    file.write("x")
fs.rename("file", "/sub/other")
assert [entry[0] for entry in fs.ilistdir("")] == ["other"]
assert sorted(entry[0] for entry in fs.ilistdir("/")) == ["main.py", "sub"]
try:
    fs.rmdir("/")
    print("removed the root")
except OSError:
    pass
print("held")
"""
    )
    assert run_script(tmp_path, source).strip() == "held"
    assert (inner / "sub" / "other").read_text() == "x"
    assert victim.read_text() == "still here"


def test_the_process_runs_as_an_unprivileged_user_in_its_own_root(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    board = ScriptBoard(tmp_path, "import sys\nsys.stdin.readline()")
    board.start()
    status = Path(f"/proc/{board.process.pid}")
    wait_until(lambda: (status / "root").readlink() != Path("/"), what="chroot")

    def user() -> list[str]:
        return next(line for line in (status / "status").read_text().splitlines() if line.startswith("Uid")).split()[1:]

    wait_until(lambda: user() != ["0"] * 4, what="another user")
    assert user() == ["65534"] * 4
    assert (status / "root").readlink() == board.jail
    board.output("\n")


@pytest.mark.parametrize("path", [Path("/"), Path("/tmp/.."), Path.home()])
def test_the_root_and_the_home_are_no_jails(path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be a board's directory"):
        prepare(path, BoardConfig("x"))
