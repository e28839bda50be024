"""The newest samples of every strut, waiting for the estimator's tick: bounded, the oldest go first, and that is counted."""

from __future__ import annotations

from collections import deque

import numpy as np

from onboard.messages import Floats, ImuBatch, Ints


class LatestSlots:
    """One short queue per strut. A tick takes what came since the last one; between ticks the newest always fit.

    dropped (n,): batches thrown away because nobody took them, per strut.
    """

    def __init__(self, struts: int, depth: int = 8) -> None:
        if struts < 1 or depth < 1:
            raise ValueError(f"slots need at least one strut and one place, not {struts} and {depth}")
        self._waiting: list[deque[ImuBatch]] = [deque(maxlen=depth) for _ in range(struts)]
        self._newest: list[ImuBatch | None] = [None] * struts
        self._newest_s: Floats = np.full(struts, -np.inf)
        self.dropped: Ints = np.zeros(struts, dtype=np.int64)

    def put(self, batch: ImuBatch) -> None:
        """Add a strut's newest batch; a full queue loses its oldest."""
        waiting = self._waiting[batch.strut]
        if len(waiting) == waiting.maxlen:
            self.dropped[batch.strut] += 1
        waiting.append(batch)
        self._newest[batch.strut] = batch
        self._newest_s[batch.strut] = batch.t_s[-1]

    def take(self) -> list[ImuBatch]:
        """All waiting batches, strut by strut and oldest first; the queues are empty afterwards."""
        taken: list[ImuBatch] = []
        for waiting in self._waiting:
            taken.extend(waiting)
            waiting.clear()
        return taken

    def newest(self, strut: int) -> ImuBatch | None:
        """The last batch of a strut, taken or not; None before the first."""
        return self._newest[strut]

    def age_s(self, t_s: float) -> Floats:
        """Time since acquisition of every strut's newest sample (n,) [s]; infinity where nothing ever came."""
        age: Floats = t_s - self._newest_s
        return age
