"""Realtime options are taken where permitted, and what is refused is said; the benchmark keeps its JSON contract."""

import argparse
import json
import os
import subprocess
import sys

import pytest

from onboard.runtime import bench_loop
from onboard.runtime.realtime import Realtime

ASK = (
    "import json, os, sys\n"
    "if len(sys.argv) > 1:\n"
    "    import resource, onboard.runtime.realtime\n"
    "    for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_RTPRIO):\n"
    "        resource.setrlimit(kind, (0, 0))\n"
    "    os.setgid(65534); os.setuid(65534)\n"
    "from onboard.runtime.realtime import enter_realtime, leave_realtime\n"
    "got = enter_realtime(core=0)\n"
    "kind = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK\n"
    "locked = [line for line in open('/proc/self/status') if line.startswith('VmLck')][0]\n"
    "child = os.fork()\n"
    "if child == 0:\n"
    "    os._exit(os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)\n"
    "inherited = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
    "leave_realtime()\n"
    "print(json.dumps([got.scheduler, got.memory_locked, list(got.lines), kind, int(locked.split()[1]), inherited, "
    "os.sched_getscheduler(0)]))\n"
)


def ask(*words: str) -> list:
    out = subprocess.run([sys.executable, "-c", ASK, *words], capture_output=True, text=True, timeout=60, check=False)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout.splitlines()[-1])


def test_what_is_reported_is_what_the_kernel_says_and_children_do_not_inherit_it():
    scheduler, locked, lines, kind, locked_kb, inherited, after = ask()
    assert (kind == os.SCHED_FIFO) is scheduler
    assert scheduler or any("realtime priority" in line for line in lines)
    assert (locked_kb > 0) is locked
    assert inherited == os.SCHED_OTHER and after == os.SCHED_OTHER


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become a user without rights")
def test_without_permission_it_says_how_to_get_it_and_goes_on():
    scheduler, locked, lines, kind, locked_kb, _, _ = ask("without rights")
    assert (scheduler, locked, kind, locked_kb) == (False, False, os.SCHED_OTHER, 0)
    text = " ".join(lines)
    assert "LimitRTPRIO" in text and "LimitMEMLOCK" in text


CELLS = [(load, rate) for load in ("idle", "loaded") for rate in ("80", "200")]


def benchmark(capsys, *words: str) -> dict:
    parser = argparse.ArgumentParser()
    run = bench_loop.bench_loop(parser)
    assert run(parser.parse_args(["--json", "--seconds", "0.5", *words])) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_benchmark_prints_every_cell_of_its_contract_on_the_last_line(capsys):
    result = benchmark(capsys, "--seed", "7")
    assert result["seed"] == 7
    for kind in ("realtime", "normal"):
        for load, rate in CELLS:
            cell = result[kind][load][rate]
            assert set(cell) == {"p50_us", "p99_us", "max_us"}
            if kind == "realtime" and "realtime_absent" in result:
                assert set(cell.values()) == {None}
            else:
                assert 0.0 < cell["p50_us"] <= cell["p99_us"] <= cell["max_us"]


def test_where_realtime_priority_is_not_permitted_its_cells_are_null_and_the_reason_is_given(capsys, monkeypatch):
    refused = Realtime(scheduler=False, memory_locked=False, core=None, lines=("no realtime priority: not permitted",))
    monkeypatch.setattr(bench_loop, "enter_realtime", lambda: refused)
    monkeypatch.setattr(bench_loop, "_measure", lambda *_: {})
    result = benchmark(capsys)
    assert [set(result["realtime"][load][rate].values()) for load, rate in CELLS] == [{None}] * 4
    assert result["realtime_absent"] == "no realtime priority: not permitted"
    parser = argparse.ArgumentParser()
    assert bench_loop.bench_loop(parser)(parser.parse_args(["--seconds", "0.5"])) == 0
    assert "not measured: no realtime priority" in capsys.readouterr().out
