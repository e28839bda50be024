"""One idea: while a robot drives: notice that it is tipped or stuck, play a primitive instead of plans, give up at last."""

from __future__ import annotations

import dataclasses

from onboard.messages import Floats
from onboard.planning.driver import Driver
from onboard.planning.recovery import MOST_TRIES, Detector, Recovery, Trouble
from onboard.three_bar_robot import ThreeBar


class Rescue:
    """trouble: what the robot is being freed from, or could not be freed from; None while all is well."""

    def __init__(self, spec: ThreeBar, world: Floats, driver: Driver, recovery: Recovery | None) -> None:
        self._world, self._driver, self._recovery = world, driver, recovery
        self._detector = Detector(spec.symmetry)
        self.trouble: Trouble | None = None
        self.freeing = False
        self.counts = {"tipped": 0, "stuck": 0}

    def begin(self) -> None:
        """A new goal: what was tried before does not count."""
        self._detector = Detector(self._detector.symmetry)
        self.trouble, self.freeing = None, False

    def pause(self) -> None:
        """The robot does not drive now; a primitive that was being played is dropped with everything else."""
        self._detector.forget()
        self.freeing = False
        if self.trouble is not None and not self.trouble.hopeless:
            self.trouble = None

    def gives_up(self, t_s: float, caps_u: Floats) -> bool:
        """Look at caps (C, 3) [u] at `t_s`; True when primitives were tried often enough and a person is needed."""
        if self.freeing:
            if self._driver.player.running or self._driver.pending is not None:
                return False
            self.freeing, self.trouble = False, None
            self._detector.forget()
        if self._recovery is None:
            return False
        found = self._detector.look(t_s, caps_u)
        if found is None:
            return False
        if found.hopeless:
            self.trouble = dataclasses.replace(found, text=f"{found.text}; {MOST_TRIES} primitives did not help, it stands still")
            return True
        order = self._recovery.order(found, t_s, caps_u, self._world)
        self.trouble = dataclasses.replace(found, text=f"{found.text}; freeing it with {order.name!r}")
        self.counts[found.kind] += 1
        self.freeing = self._driver.accept(order, t_s)
        return False
