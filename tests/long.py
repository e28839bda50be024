"""`make test-long`: every test, the long ones too, one file at a time; what has passed on this commit is not run again.

State lies in runs/long/state.json. `python -m tests.long --again` starts over; `--list` shows what is left.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "runs" / "long" / "state.json"


def commit() -> str:
    """The tree under test; uncommitted changes make it a tree of its own that is never resumed."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT)
    dirty = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=False, cwd=ROOT)
    return head.stdout.strip() + ("+changes" if dirty.stdout.strip() else "")


def load(tree: str) -> dict[str, dict[str, float]]:
    """Results of earlier runs on the same tree."""
    if STATE.is_file():
        state = json.loads(STATE.read_text())
        if state.get("tree") == tree:
            return dict(state["files"])
    return {}


def save(tree: str, files: dict[str, dict[str, float]]) -> None:
    """Keep the results, whole or not at all."""
    STATE.parent.mkdir(parents=True, exist_ok=True)
    partial = STATE.with_suffix(".part")
    partial.write_text(json.dumps({"tree": tree, "files": files}, indent=1))
    partial.replace(STATE)


def run_file(path: Path) -> dict[str, float]:
    """Run one test file in full; counts and seconds. A file without tests passes with none."""
    report = STATE.parent / "report.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", str(path.relative_to(ROOT)), f"--junitxml={report}", "--timeout=3000"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    counts = {"passed": 0.0, "failed": 0.0, "skipped": 0.0, "seconds": round(time.monotonic() - start, 1)}
    if report.is_file():
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            total, failed = int(suite.get("tests", 0)), int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            skipped = int(suite.get("skipped", 0))
            counts["failed"] += failed
            counts["skipped"] += skipped
            counts["passed"] += total - failed - skipped
    if done.returncode not in (0, 5) and not counts["failed"]:
        counts["failed"] = 1.0
    return counts


def main() -> int:
    """Run what is left; exit status 1 if anything has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.long", description=__doc__)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--list", action="store_true", help="only show what is left")
    parser.add_argument("--family", help="only tests/FAMILY")
    args = parser.parse_args()
    STATE.parent.mkdir(parents=True, exist_ok=True)
    tree = commit()
    files = {} if args.again else load(tree)
    todo = [p for p in sorted((ROOT / "tests" / (args.family or "")).rglob("test_*.py"))]
    left = [p for p in todo if files.get(str(p.relative_to(ROOT)), {}).get("failed", 1.0) > 0]
    if args.list:
        print("\n".join(str(p.relative_to(ROOT)) for p in left))
        return 0
    for number, path in enumerate(left, start=1):
        name = str(path.relative_to(ROOT))
        print(f"[{number}/{len(left)}] {name}", flush=True)
        files[name] = run_file(path)
        save(tree, files)
    failed = [name for name, counts in files.items() if counts["failed"]]
    sums = {key: int(sum(counts[key] for counts in files.values())) for key in ("passed", "failed", "skipped", "seconds")}
    for name in failed:
        print(f"failed: {name}")
    print(
        f"{sums['passed']} passed, {sums['failed']} failed, {sums['skipped']} skipped ({len(files)} files, {sums['seconds']} s)"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
