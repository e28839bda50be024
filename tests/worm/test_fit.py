"""Feasible sets fitted to data: exact where the truth is the template, never larger than the truth otherwise."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from offboard.worm.fit import COLUMNS, fit, read_table, sample_stand_in
from onboard.errors import ConfigError
from onboard.planning.contact.feasibility import BINS, capacities, stand_in
from onboard.planning.contact.worm import WormSpec, load_worm


@pytest.fixture(scope="module")
def spec(root: Path) -> WormSpec:
    return load_worm(root / "robots" / "worm.toml")


def test_without_stiffening_the_fit_gives_the_twelve_facets_of_four_chambers(spec: WormSpec) -> None:
    table = fit(spec, sample_stand_in(spec, 30_000, np.random.default_rng(0)))
    exact = stand_in(spec)
    np.testing.assert_allclose(table.alpha, exact.alpha, atol=1e-6)
    np.testing.assert_allclose(table.beta, exact.beta, atol=1e-6)
    assert np.all(table.capacity <= exact.capacity + 1e-9)
    assert np.all(table.capacity >= 0.95 * exact.capacity), "conservative, but not by more than 5 %"


def reached_by_chambers(spec: WormSpec, rho: float, bend: np.ndarray, left: float) -> bool:
    """Whether some pressures give extension rho and normalised curvature `bend` with a share `left` of the capacity."""
    size, stiff = np.linalg.norm(bend) / left, spec.segments.stiffening
    if 1.0 - 4.0 * stiff * size**2 < 0.0:
        return False
    drive = bend / left * (1.0 if size < 1e-9 else (1.0 - np.sqrt(1.0 - 4.0 * stiff * size**2)) / (2.0 * stiff * size**2))
    total = np.abs(drive).sum()
    return total <= 4 * rho + 1e-9 and total <= 4 * (1 - rho) + 1e-9 and np.abs(drive).max() <= 1 + 1e-9


def test_with_stiffening_everything_in_the_fit_is_really_reachable(spec: WormSpec) -> None:
    stiff = msgspec.structs.replace(spec, segments=msgspec.structs.replace(spec.segments, stiffening=0.12))
    table = fit(stiff, sample_stand_in(stiff, 30_000, np.random.default_rng(1)))
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(6000):
        index = int(rng.integers(0, BINS))
        moment = rng.uniform(0.0, 0.9) * table.capacity[index]
        point = np.array([rng.uniform(0, 1), *rng.uniform(-1, 1, 2)])
        matrix, bound = table.section(moment, index)
        if np.all(matrix @ point <= bound):
            inside += 1
            left = 1.0 - moment / capacities(stiff)[index]
            assert reached_by_chambers(stiff, point[0], point[1:], left), (point, moment, index)
    assert inside > 300, "the fit must not be empty either"


def test_a_table_of_measurements_is_read_strictly(tmp_path: Path) -> None:
    good = tmp_path / "good.csv"
    good.write_text(",".join(COLUMNS) + "\n0.1,0.08,1.0,-2.0,90\n")
    np.testing.assert_allclose(read_table(good), [[0.1, 0.08, 1.0, -2.0, 90.0]])
    bad = tmp_path / "bad.csv"
    bad.write_text(",".join(COLUMNS) + "\n0.1,0.08,1.0,-2.0,90\n0.1,nan,0,0,0\n")
    with pytest.raises(ConfigError, match="line 3"):
        read_table(bad)
    bad.write_text("moment,length\n1,2\n")
    with pytest.raises(ConfigError, match="header"):
        read_table(bad)


def test_a_bin_without_data_is_named(spec: WormSpec) -> None:
    rows = sample_stand_in(spec, 20_000, np.random.default_rng(3))
    with pytest.raises(ConfigError, match="gravity bin 45 deg"):
        fit(spec, rows[rows[:, 4] != 45.0])
