"""Bending moment of an inflated joint: linear, a small odd network, or the wrinkling model of a thin-walled tube.

A law gives, for the bending angle d [rad] away from rest, the moment M [N m] and the secant stiffness K = M / d
[N m/rad], which majorises the bending energy of a softening tube and so keeps the implicit bending row stable.
Wrinkling: section III of arXiv 2501.17963, with its two pressure polynomials.
"""

from __future__ import annotations

import math

from sim.vine.kernels import apart, inner

LINEAR, NETWORK, WRINKLING = 0, 1, 2

# Places in a robot's parameter vector.
MASS, INERTIA, STIFFNESS, DAMPING, DRAG, RADIUS, FRICTION, STRAIN_SCALE = range(8)
STRAIN = 8  # four coefficients of the wrinkling strain's polynomial, highest power first
ONSET = 12  # four coefficients of the wrinkling onset angle's polynomial
NETWORK_AT, NETWORK_UNITS = 16, 10  # ten input weights, ten biases, ten output weights
PARAMETERS = NETWORK_AT + 3 * NETWORK_UNITS

STRAIN_CENTRE_PA, STRAIN_SPREAD_PA = 6167.0, 5836.0
ONSET_CENTRE_PA, ONSET_SPREAD_PA = 8957.0, 5149.0


@inner
def alpha(gamma):
    """Moment over the fully wrinkled moment, and its slope, at the wrinkling angle gamma in [0, pi] [rad]."""
    left = math.pi - gamma
    if left < 0.02:  # both numerator and denominator vanish like left**3
        return 1.0 - 0.1 * left * left, 0.2 * left
    sine, cosine = math.sin(gamma), math.cos(gamma)
    top = math.sin(2.0 * gamma) + 2.0 * left
    bottom = 4.0 * (sine + left * cosine)
    top_slope = 2.0 * math.cos(2.0 * gamma) - 2.0
    bottom_slope = -4.0 * left * sine
    return top / bottom, (top_slope * bottom - top * bottom_slope) / (bottom * bottom)


@inner
def cubic(p, at, x):
    return ((p[at] * x + p[at + 1]) * x + p[at + 2]) * x + p[at + 3]


@inner
def wrinkled_share(angle, strain):
    """(alpha, d alpha / d angle, d alpha / d strain) of a joint bent by `angle` > 2 asin(strain) [rad]."""
    apart()
    half_sine = math.sin(0.5 * angle)
    x = 2.0 * strain / half_sine - 1.0
    if x >= 1.0:
        return 0.5, 0.0, 0.0
    gamma = math.acos(x)
    share, slope = alpha(gamma)
    by_x = -slope / math.sqrt(1.0 - x * x)
    by_angle = -by_x * strain * math.cos(0.5 * angle) / (half_sine * half_sine)
    return share, by_angle, by_x * 2.0 / half_sine


@inner
def law_terms(law, p, pressure):
    """What a law needs besides the angle: (full moment, strain, onset angle, share at the onset, pressure [Pa])."""
    full = math.pi * pressure * p[RADIUS] ** 3
    if law != WRINKLING:
        return full, 0.0, 1.0, 0.0, pressure
    strain = p[STRAIN_SCALE] * cubic(p, STRAIN, (pressure - STRAIN_CENTRE_PA) / STRAIN_SPREAD_PA)
    onset = p[STRAIN_SCALE] * cubic(p, ONSET, (pressure - ONSET_CENTRE_PA) / ONSET_SPREAD_PA)
    share, _, _ = wrinkled_share(onset, strain)
    return full, strain, onset, share, pressure


@inner
def moment(law, p, terms, d):
    """(M, K, dM/dd, dK/dd) at the bending angle d."""
    apart()
    if law == LINEAR:
        return p[STIFFNESS] * d, p[STIFFNESS], p[STIFFNESS], 0.0
    if law == NETWORK:
        value, slope = 0.0, 0.0
        for i in range(NETWORK_UNITS):
            a, b, c = p[NETWORK_AT + i], p[NETWORK_AT + 10 + i], p[NETWORK_AT + 20 + i]
            up, down = math.tanh(a * d + b), math.tanh(-a * d + b)
            value += 0.5 * c * (up - down)
            slope += 0.5 * c * a * (2.0 - up * up - down * down)
        if abs(d) < 1e-5:
            secant, secant_slope = slope, 0.0
        else:
            secant = value / d
            secant_slope = (slope - secant) / d
        if secant < 0.0:  # a network may be non-monotonic while it is being fitted; its moment stays explicit then
            secant, secant_slope = 0.0, 0.0
        return value, secant, slope, secant_slope
    full, strain, onset, share, _ = terms
    size = min(abs(d), math.pi)
    if size < onset:
        secant = full * share / onset
        return secant * d, secant, secant, 0.0
    share, by_angle, _ = wrinkled_share(size, strain)
    value = full * share
    slope = full * by_angle if abs(d) < math.pi else 0.0
    secant = value / abs(d)
    secant_slope = (slope - secant) / d
    return math.copysign(value, d), secant, slope, secant_slope


@inner
def moment_adjoint(law, p, terms, d, by_m, by_k, grad, by_terms):
    """Adds by_m dM + by_k dK to the parameters' gradient `grad` (P,) and to `by_terms` (full, strain, onset)."""
    apart()
    if law == LINEAR:
        grad[STIFFNESS] += by_m * d + by_k
        return
    if law == NETWORK:
        near = abs(d) < 1e-5
        total, slope = 0.0, 0.0
        for i in range(NETWORK_UNITS):
            a, b, c = p[NETWORK_AT + i], p[NETWORK_AT + 10 + i], p[NETWORK_AT + 20 + i]
            total += 0.5 * c * (math.tanh(a * d + b) - math.tanh(-a * d + b))
            slope += c * a * (1.0 - math.tanh(b) ** 2)
        by_value = by_m
        if not near and total / d >= 0.0:
            by_value += by_k / d
        for i in range(NETWORK_UNITS):
            a, b, c = p[NETWORK_AT + i], p[NETWORK_AT + 10 + i], p[NETWORK_AT + 20 + i]
            up, down = math.tanh(a * d + b), math.tanh(-a * d + b)
            slope_up, slope_down = 1.0 - up * up, 1.0 - down * down
            grad[NETWORK_AT + i] += by_value * 0.5 * c * d * (slope_up + slope_down)
            grad[NETWORK_AT + 10 + i] += by_value * 0.5 * c * (slope_up - slope_down)
            grad[NETWORK_AT + 20 + i] += by_value * 0.5 * (up - down)
            if near and slope >= 0.0:  # K is the slope at zero there: c a (1 - tanh(b)^2)
                middle = math.tanh(b)
                flat = 1.0 - middle * middle
                grad[NETWORK_AT + i] += by_k * c * flat
                grad[NETWORK_AT + 10 + i] += -2.0 * by_k * c * a * middle * flat
                grad[NETWORK_AT + 20 + i] += by_k * a * flat
        return
    full, strain, onset, share, _ = terms
    size = min(abs(d), math.pi)
    if size < onset:
        by_secant = by_m * d + by_k
        _, by_angle, by_strain = wrinkled_share(onset, strain)
        by_terms[0] += by_secant * share / onset
        by_terms[1] += by_secant * full * by_strain / onset
        by_terms[2] += by_secant * full * (by_angle / onset - share / (onset * onset))
        return
    share, _, by_strain = wrinkled_share(size, strain)
    by_value = (by_m if d > 0.0 else -by_m) + by_k / abs(d)
    by_terms[0] += by_value * share
    by_terms[1] += by_value * full * by_strain


@inner
def law_terms_adjoint(law, p, pressure, by_terms, grad):
    """Carries `by_terms` (full, strain, onset) on to the parameters' gradient; returns d / d pressure."""
    full_by_pressure = math.pi * p[RADIUS] ** 3
    grad[RADIUS] += by_terms[0] * 3.0 * math.pi * pressure * p[RADIUS] ** 2
    by_pressure = by_terms[0] * full_by_pressure
    if law != WRINKLING:
        return by_pressure
    x = (pressure - STRAIN_CENTRE_PA) / STRAIN_SPREAD_PA
    y = (pressure - ONSET_CENTRE_PA) / ONSET_SPREAD_PA
    scale = p[STRAIN_SCALE]
    grad[STRAIN_SCALE] += by_terms[1] * cubic(p, STRAIN, x) + by_terms[2] * cubic(p, ONSET, y)
    power_x, power_y = 1.0, 1.0
    for i in range(3, -1, -1):
        grad[STRAIN + i] += by_terms[1] * scale * power_x
        grad[ONSET + i] += by_terms[2] * scale * power_y
        power_x *= x
        power_y *= y
    slope_x = (3.0 * p[STRAIN] * x + 2.0 * p[STRAIN + 1]) * x + p[STRAIN + 2]
    slope_y = (3.0 * p[ONSET] * y + 2.0 * p[ONSET + 1]) * y + p[ONSET + 2]
    by_pressure += by_terms[1] * scale * slope_x / STRAIN_SPREAD_PA
    by_pressure += by_terms[2] * scale * slope_y / ONSET_SPREAD_PA
    return by_pressure
