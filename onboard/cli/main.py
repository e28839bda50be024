"""`prestress`: finds the verb, lets it add its arguments, runs it, and turns errors into one line and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from onboard import __version__
from onboard.cli.catalog import SUBJECTS, VERBS, catalog, load
from onboard.errors import PrestressError, UsageError

# Matrices here are small: more threads cost more than they bring, and in a realtime process the loop would wait for threads
# that have no realtime priority. Set before numpy is imported, which only verbs do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MAX_LINE = 1200  # characters of an error
MAX_SEED = 2**32 - 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 good, 2 bad input, others as in onboard.errors)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _dispatch(words)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone or a full disk can still be answered
    except PrestressError as error:
        _complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as error:
        file = error.filename2 or error.filename  # the second: where something was to go
        _complain(f"{file}: {error.strerror}" if file else str(error.strerror or error))
        if error.filename is None:
            _discard_output()  # it may be standard output that is full: the interpreter would try again at its end
        return 1
    except KeyboardInterrupt:
        print("prestress: interrupted", file=sys.stderr)
        return 130


def _complain(text: str) -> None:
    """One line of bounded length, whatever file names and values are quoted in it."""
    line = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    if len(line) > MAX_LINE:
        line = f"{line[: MAX_LINE // 2]} ... {line[-MAX_LINE // 2 :]}"
    print(f"prestress: {line}", file=sys.stderr)


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"prestress {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    names = catalog()
    subjects = sorted(name.partition(".")[2] for name in names if name.startswith(verb + "."))
    if rest and rest[0] in subjects:
        return _run(f"{verb}.{rest[0]}", rest[1:])
    if verb in names:
        return _run(verb, rest)
    if subjects:
        if not rest or rest[0] in ("-h", "--help"):
            print(_verb_overview(verb, subjects))
            return 0
        raise UsageError(f"{verb} does not know {rest[0]!r}; it knows {', '.join(subjects)}")
    if verb in VERBS:
        raise UsageError(f"{verb} is not part of this installation")
    raise UsageError(f"there is no command {verb!r}; see prestress --help")


def _run(name: str, arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"prestress {name.replace('.', ' ')}",
        description=SUBJECTS.get(name, VERBS.get(name, "")),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    run = load(name)(parser)
    args = parser.parse_args(arguments)
    if not 0 <= (getattr(args, "seed", None) or 0) <= MAX_SEED:
        raise UsageError(f"--seed {args.seed}: must lie in 0 .. {MAX_SEED}")
    return run(args)


def _overview() -> str:
    names = {name.partition(".")[0] for name in catalog()}
    width = max(len(name) for name in names)
    lines = [
        "prestress: onboard real-time controller for tensegrity and soft robots",
        "",
        "usage: prestress VERB [SUBJECT] [options]      prestress VERB --help tells more",
        "",
    ]
    known = [*VERBS, *sorted(names - set(VERBS))]
    lines += [f"  {name:<{width}}  {VERBS.get(name, '')}".rstrip() for name in known if name in names]
    return "\n".join(lines)


def _verb_overview(verb: str, subjects: list[str]) -> str:
    width = max(len(subject) for subject in subjects)
    lines = [f"prestress {verb}: {VERBS.get(verb, '')}", ""]
    lines += [f"  {subject:<{width}}  {SUBJECTS.get(f'{verb}.{subject}', '')}".rstrip() for subject in subjects]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
