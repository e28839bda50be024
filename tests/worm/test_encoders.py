"""Keys to compare with: an encoder changes how primitives are found, never which there are, and a learned one means motion."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import UsageError
from onboard.planning.contact.library import Library, load_library
from onboard.planning.contact.worm import load_worm
from sim.worm.encoders import ENCODERS, SIZE, encoded, followed
from sim.worm.evaluate import Outcome, compare


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm.toml")


@pytest.fixture(scope="module")
def library(root: Path, spec) -> Library:
    return load_library(root / "models_onnx/worm/primitives.npz", spec)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_primitive_is_its_own_nearest_neighbour_through_every_encoder(library: Library, spec, encoder: str) -> None:
    seen = encoded(library, spec, encoder)
    assert seen.keys.shape[1] == (library.keys.shape[1] if encoder == "hand" else SIZE)
    for index in range(0, len(library.keys), 400):
        found = seen.nearest(library.keys[index], library.modes[index], 5)
        assert index in found
        assert np.all(seen.modes[found] == library.modes[index])


def test_links_that_hold_stay_where_they_are_while_a_primitive_runs(library: Library, spec) -> None:
    few = replace(library, **{name: getattr(library, name)[:40] for name in ("keys", "modes", "moves", "shapes")})
    places = followed(few, spec).reshape(40, 4, spec.links.count, 3)
    for k in range(40):
        holding = few.modes[k].astype(bool)
        for step in range(3):
            released, attached = few.moves[k, step]
            if released >= 0:
                holding[released] = False
            if attached >= 0:
                holding[attached] = True
            moved = {*few.moves[k, step + 1].tolist()}
            for link in set(np.flatnonzero(holding).tolist()) - moved:
                assert np.linalg.norm(places[k, step + 1, link] - places[k, step, link]) < 5e-3


def test_the_learned_key_tells_motions_apart_better_than_random_directions(library: Library, spec) -> None:
    """Fitted on the first two thirds; on the rest, the nearest by a good key moves more alike than the nearest by a bad one."""
    motion = followed(library, spec)
    cut = 2 * len(motion) // 3
    train = replace(library, **{name: getattr(library, name)[:cut] for name in ("keys", "modes", "moves", "shapes")})
    error = {}
    for encoder in ("learned", "random"):
        seen = encoded(train, spec, encoder)
        gaps = []
        for index in range(cut, len(motion), 3):
            found = seen.nearest(library.keys[index], library.modes[index], 1)
            gaps += [float(np.linalg.norm(motion[found[0]] - motion[index]))] if len(found) else []
        error[encoder] = np.median(gaps)
    assert error["learned"] < error["random"]


def test_too_few_primitives_make_no_encoder(library: Library, spec) -> None:
    few = replace(library, **{name: getattr(library, name)[:9] for name in ("keys", "modes", "moves", "shapes")})
    with pytest.raises(UsageError, match="has 9"):
        encoded(few, spec, "pca")


def test_encoder_rows_count_a_failure_with_the_cap() -> None:
    good = Outcome(True, 0.2, 0.1, 40, 30.0, 100, 10, 90.0, 0, "")
    bad = Outcome(False, 7.0, 0.1, 20, 9.0, 900, 99, 50.0, 0, "no transition is left to try")
    row = compare({("pca", "seen"): [good, bad, bad]}, 30.0)["pca"]["seen"]
    assert row["planning_s"] == 30.0 and row["hit_pct"] == pytest.approx(190 / 3) and (row["success"], row["trials"]) == (1, 3)
