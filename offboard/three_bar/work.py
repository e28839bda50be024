"""One idea: the same jobs here, on processes of this computer, or on the machines of an existing Ray cluster."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from onboard.errors import MissingExtraError, PrestressError, UsageError

MOST_WORKERS = 1024


class ClusterError(PrestressError):
    """A cluster cannot be reached, or lost a job."""

    exit_code = 4


class Work(Protocol):
    """Runs jobs and hands results back as they come, in any order."""

    def run(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        """Results of `function(job)`. What a job raises is raised here."""


class Local:
    """Jobs one after the other in this process, or on `workers` processes."""

    def __init__(self, workers: int = 1) -> None:
        if not 1 <= workers <= MOST_WORKERS:
            raise UsageError(f"workers is {workers}, must be 1..{MOST_WORKERS}")
        self.workers = workers

    def run(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        """See Work."""
        if self.workers == 1 or len(jobs) < 2:
            yield from map(function, jobs)
            return
        with mp.get_context("spawn").Pool(min(self.workers, len(jobs))) as pool:
            yield from pool.imap_unordered(function, jobs)


class Cluster:
    """Jobs on a Ray cluster that is already running; the same version of this program must be installed on its nodes.

    Nothing is written there: jobs carry what they need and results come back. Raises MissingExtraError without Ray and
    ClusterError when nobody answers at `address`.
    """

    def __init__(self, address: str) -> None:
        if not address.strip():
            raise UsageError("--cluster needs the address of a Ray cluster: host:port, ray://host:port or auto")
        try:
            import ray
        except ImportError as error:
            raise MissingExtraError("--cluster", "cluster") from error
        self._ray = ray
        try:
            ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            first = str(error).strip().splitlines()
            raise ClusterError(f"no Ray cluster answers at {address}: {first[0] if first else type(error).__name__}") from error

    def run(self, function: Callable[[Any], Any], jobs: list[Any]) -> Iterator[Any]:
        """See Work; one job takes one processor. Jobs that a node took down with it are started again twice by Ray."""
        ray = self._ray
        remote = ray.remote(num_cpus=1, max_retries=2)(function)
        waiting = [remote.remote(job) for job in jobs]
        try:
            while waiting:
                ready, waiting = ray.wait(waiting, num_returns=1)
                yield ray.get(ready[0])
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, PrestressError) else error
            raise cause from error
        except ray.exceptions.RayError as error:
            raise ClusterError(f"the cluster lost a job: {str(error).splitlines()[0]}") from error
        finally:
            for job in waiting:
                ray.cancel(job, force=True)


def workplace(workers: int, cluster: str | None) -> Work:
    """Where jobs run: on `workers` local processes, or on the cluster at an address."""
    return Local(workers) if cluster is None else Cluster(cluster)
