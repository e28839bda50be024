"""From disc poses to the estimate that everybody else reads: cables, covariance, ages and flags, put together once."""

from __future__ import annotations

import numpy as np

from onboard.errors import EstimationError
from onboard.estimation.cables import cable_lengths
from onboard.estimation.geometry import DiscGeometry
from onboard.messages import Bools, EstimateFlag, Floats, Ints, PoseEstimate, StrutObservations, frozen

LOST_AFTER_S = 0.5  # without a single usable strut the priors alone may carry the arm this long


def readonly(array: Floats) -> Floats:
    """A fresh array, closed for writing; unlike messages.frozen it is not copied again."""
    array.flags.writeable = False
    return array


class Reporter:
    """Builds PoseEstimates and keeps what flags need to remember."""

    def __init__(self, geometry: DiscGeometry, max_sigma_m: float) -> None:
        self._geometry, self._max_sigma_m = geometry, max_sigma_m
        self._n = geometry.lower_m.shape[1]
        self.reset()

    def reset(self) -> None:
        """Forget when struts were last heard of."""
        self._last_used_s: float | None = None
        self._last_age_s = 0.0

    def require(self, observations: StrutObservations, use: Bools) -> None:
        """Raise EstimationError while no strut was ever usable: there is nothing to estimate from."""
        if self._last_used_s is None and not use.any():
            count = len(observations.valid)
            raise EstimationError(f"none of the {count} struts has sent a usable sample yet")

    def build(
        self,
        observations: StrutObservations,
        use: Bools,
        position: Floats,
        rotation: Floats,
        covariance: Floats,
        strut_flags: Ints,
        extra: EstimateFlag,
    ) -> PoseEstimate:
        """The estimate at the observations' tick; arrays are copied where the estimator goes on writing into them."""
        geometry, t_s = self._geometry, observations.t_s
        flags = extra
        if use.all():
            self._last_age_s = float(observations.age_s.max())
            self._last_used_s = t_s
            age_s = self._last_age_s
        elif use.any():
            self._last_age_s = float(observations.age_s[use].max())
            self._last_used_s = t_s
            age_s = self._last_age_s
            flags |= EstimateFlag.DEGRADED
            if not use.reshape(-1, self._n).any(axis=1).all():
                flags |= EstimateFlag.COASTING
        else:
            silent_s = t_s - (self._last_used_s if self._last_used_s is not None else t_s)
            age_s = self._last_age_s + silent_s
            flags |= EstimateFlag.DEGRADED | EstimateFlag.COASTING
            if silent_s > LOST_AFTER_S:
                flags |= EstimateFlag.LOST
        tip = covariance[-6, -6] + covariance[-5, -5] + covariance[-4, -4]
        if not tip <= self._max_sigma_m**2:
            flags |= EstimateFlag.UNCERTAIN
        length, jacobian = cable_lengths(position, rotation, geometry.lower_m, geometry.upper_m, geometry.cables)
        return PoseEstimate(
            t_s=t_s,
            position_m=readonly(position.copy()),
            rotation=readonly(rotation.copy()),
            cable_length_m=readonly(length),
            cable_jacobian=readonly(jacobian),
            covariance=readonly(covariance),
            strut_flags=frozen(strut_flags, dtype=np.int64),
            age_s=age_s,
            flags=flags,
        )


def usable(observations: StrutObservations) -> Bools:
    """Struts that are valid and whose numbers are all finite: what is not a number goes no further than this."""
    total = observations.direction.sum(axis=1) + observations.rate_rad_s.sum(axis=1)
    total = total + observations.sigma_inclination_rad + observations.sigma_azimuth_rad
    use: Bools = observations.valid & np.isfinite(total)
    return use
