"""One idea: A* with replanning as a controller: search, run the first primitive to its end, search again (paper section V-B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.astar import BodyCheck, Heuristic, ReverseHeuristic, grid_heuristic, search
from onboard.planning.costs import StrutState
from onboard.planning.navigator import Decision, GaitOrder, Situation, pose_at_start
from onboard.planning.primitives import Entry, Library
from onboard.planning.settings import PlannerSettings
from onboard.planning.terrain import Terrain
from onboard.planning.wavefront import Wavefront


class AstarNavigator:
    """`gaits`: steps and minimum [u] of each primitive by name. `fallbacks` counts moves taken from an older search."""

    def __init__(
        self,
        settings: PlannerSettings,
        layout: StrutState,
        library: Library,
        gaits: Mapping[str, tuple[tuple[tuple[float, ...], ...], float]],
        terrain: Terrain,
        world: Floats,
        kind: Literal["grid", "reverse"],
    ) -> None:
        self.settings, self.layout, self.gaits, self.kind = settings, layout, gaits, kind
        self.entries = usable(library, settings.astar.gaits, settings.astar.longest_s)
        self.terrain, self.world = terrain, world
        self.goal = np.zeros(2)
        self.heuristic: Heuristic | None = None
        self._rest_of_plan: list[int] = []
        self.fallbacks = 0

    def set_goal(self, goal: Floats) -> None:
        """Grow the heuristic anew. Raises PlanningError or NotANumberError; the old goal then stays."""
        grid = self.terrain.grid(goal)
        table = self.settings.astar
        free = self.terrain.free_from(goal)
        body = BodyCheck(table, self.terrain, free, self.world, self.settings.terrain.standing_u)
        if self.kind == "grid":
            front = Wavefront(grid)
            front.set_goal(goal)
            heuristic: Heuristic = grid_heuristic(front)
        else:
            heuristic = ReverseHeuristic(table, self.entries, np.asarray(goal, dtype=float), body)
        self.goal, self.body, self.heuristic, self._rest_of_plan = np.array(goal, dtype=float), body, heuristic, []

    def decide(self, situation: Situation) -> Decision:
        """The first primitive of the plan from here; without a plan the next one of the last plan. Raises PlanningError."""
        if self.heuristic is None:
            raise PlanningError("there is no goal yet")
        pose = pose_at_start(self.layout, situation)
        try:
            found = search(pose, self.goal, self.entries, self.heuristic, self.body, self.settings.astar)
            moves = list(found.moves)
        except PlanningError:
            moves = self._rest_of_plan
            self.fallbacks += 1
            if not moves:
                raise
        if not moves:  # at the goal by its own reckoning: the shortest move looks again
            moves = [int(np.argmin([entry.seconds for entry in self.entries]))]
        self._rest_of_plan = moves[1:]
        entry = self.entries[moves[0]]
        steps, min_u = self.gaits[entry.name]
        ranges = np.array([entry.left_u, entry.right_u] * (self.layout.cables // 2))
        return GaitOrder(entry.name, steps, min_u, ranges, situation.start_s)


def usable(library: Library, names: Sequence[str], longest_s: float) -> list[Entry]:
    """Primitives of these names that end by themselves in time; raises PlanningError when there is none."""
    entries = [entry for entry in library.entries if entry.name in names and entry.seconds <= longest_s]
    if not entries:
        raise PlanningError(f"no primitive of the library is called {' or '.join(names)} and takes less than {longest_s} s")
    return entries
