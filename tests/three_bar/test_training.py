"""Training runs go on after a kill as if nothing had happened, learn something, and refuse what does not fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from offboard.three_bar import train as train_module  # noqa: E402
from offboard.three_bar.collect import CollectSettings, collect  # noqa: E402
from offboard.three_bar.dataset import DataError  # noqa: E402
from offboard.three_bar.train import CHECKPOINT, Trainer, TrainError, describe, load_model, read_checkpoint  # noqa: E402
from offboard.three_bar.train_report import write_report  # noqa: E402
from offboard.three_bar.train_settings import DEFAULT_FILE, TrainSettings, load_settings, overridden  # noqa: E402
from onboard.config import convert  # noqa: E402
from onboard.errors import ConfigError  # noqa: E402


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    settings = CollectSettings(seed=1, episodes=9, seconds=3.0, drives=("coloured",), terrains=("flat",))
    collect(path, settings, 1, lambda done, total: None)
    return path


def settings_for(data: Path, latent: int = 16, **training: int) -> TrainSettings:
    import msgspec

    small = {"updates": 16, "batch": 4, "check_every": 8, "check_windows": 8, **training}
    raw = msgspec.to_builtins(overridden(load_settings("contact"), small, (str(data),)))
    raw["network"]["latent"] = latent
    return convert("test", "", raw, TrainSettings)


def silent(done: int, total: int) -> None:
    """A progress bar that shows nothing."""


def weights(trainer: Trainer) -> np.ndarray:
    return torch.cat([p.detach().flatten() for p in trainer.average.parameters()]).numpy()


def test_a_run_that_was_interrupted_ends_where_one_in_one_go_ends(data: Path, tmp_path: Path) -> None:
    whole = Trainer(settings_for(data), tmp_path / "whole", "contact")
    whole.run(silent)
    Trainer(settings_for(data), tmp_path / "parts", "contact").run(silent, stop_after=8)
    torch.manual_seed(99)  # whatever else happens in between
    again = Trainer(settings_for(data), tmp_path / "parts", "contact")
    assert again.progress.update == 8
    again.run(silent)
    assert np.array_equal(weights(whole), weights(again))
    assert [row["loss"] for row in whole.progress.history] == [row["loss"] for row in again.progress.history]
    other = Trainer(settings_for(data, seed=5), tmp_path / "other", "contact")
    other.run(silent, stop_after=8)
    assert not np.array_equal(weights(whole), weights(other))


def test_a_run_may_begin_with_the_weights_of_another_and_says_so(data: Path, tmp_path: Path) -> None:
    first = Trainer(settings_for(data), tmp_path / "first", "contact")
    first.run(silent)
    start = tmp_path / "first" / "best.pt"
    best = read_checkpoint(start)["model"]
    second = Trainer(settings_for(data, seed=3), tmp_path / "second", "contact", start)
    assert all(torch.equal(value, best[key]) for key, value in second.model.state_dict().items())
    assert all(torch.equal(value, best[key]) for key, value in second.average.state_dict().items())
    second.run(silent, stop_after=8)
    again = Trainer(settings_for(data, seed=3), tmp_path / "second", "contact", start)
    assert again.progress.update == 8, "going on comes before beginning"
    assert np.array_equal(weights(again), weights(second))
    assert describe(again)["began_with"][0]["settings"]["training"]["seed"] == 0
    with pytest.raises(TrainError, match="another architecture"):
        Trainer(settings_for(data, latent=8), tmp_path / "third", "contact", start)


def test_it_learns_and_reports(data: Path, tmp_path: Path) -> None:
    trainer = Trainer(settings_for(data, updates=60, check_every=20), tmp_path, "contact")
    trainer.run(silent)
    history = trainer.progress.history
    first = train_module.check_errors(
        Trainer(settings_for(data), tmp_path / "fresh", "contact").model, trainer.checks, np.arange(8)
    )
    last = train_module.check_errors(trainer.average, trainer.checks, np.arange(8))
    assert last[0] < first[0]
    assert history[-1]["chunks"] > history[0]["chunks"], "the unroll grows in stages"
    write_report(tmp_path, describe(trainer))
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["updates"] == 60 and report["best_com_error_u"] == trainer.progress.best
    assert (tmp_path / "report.png").stat().st_size > 10_000
    model, identity = load_model(tmp_path / "best.pt")
    assert identity["variant"] == "contact"
    assert not model.training


def test_a_checkpoint_of_another_run_is_refused_with_the_difference(data: Path, tmp_path: Path) -> None:
    Trainer(settings_for(data), tmp_path, "contact").run(silent, stop_after=1)
    with pytest.raises(TrainError, match=r"network\.latent 16 there, 8 here"):
        Trainer(settings_for(data, latent=8), tmp_path, "contact")
    with pytest.raises(TrainError, match="another variant"):
        Trainer(settings_for(data), tmp_path, "flat")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_damaged_checkpoint_is_refused(data: Path, tmp_path: Path, share: float) -> None:
    Trainer(settings_for(data), tmp_path, "contact").run(silent, stop_after=1)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(TrainError, match="not a checkpoint"):
        read_checkpoint(path)


def test_pickled_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "owned",))

    torch.save({"identity": "{}", "model": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(TrainError):
        read_checkpoint(tmp_path / "evil.pt")
    assert not (tmp_path / "owned").exists()


def test_a_full_disk_keeps_the_checkpoint_before(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = Trainer(settings_for(data), tmp_path, "contact")
    trainer.run(silent, stop_after=8)
    before = (tmp_path / CHECKPOINT).read_bytes()

    def full(state: object, file: object) -> None:
        file.write(b"half of it")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(train_module.torch, "save", full)
    with pytest.raises(TrainError, match="No space left"):
        trainer.save()
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_the_checkpoint(data: Path, tmp_path: Path) -> None:
    trainer = Trainer(settings_for(data), tmp_path, "contact")
    trainer.run(silent, stop_after=8)
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(float("nan"))
    with pytest.raises(TrainError, match="not finite"):
        trainer.run(silent)
    assert Trainer(settings_for(data), tmp_path, "contact").progress.update == 8


def test_missing_data_is_said_before_anything_else(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no episodes"):
        Trainer(settings_for(tmp_path), tmp_path / "run", "contact")


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("latent = 64", "latent = 0", "network.latent"),
        ("latent = 64", "latent = 64\ndepth = 3", "network.depth"),
        ("share = 0.3 },\n    { chunks = 2", "share = 0.4 },\n    { chunks = 2", "training.stages"),
        ("chunk_steps = 20", "chunk_steps = 21", "network.chunk_steps"),
        ("learning_rate = 2e-3", "learning_rate = nan", "training.learning_rate"),
        ("{ chunks = 10,", "{ chunks = 11,", "training.stages"),
        ("[variants.flat.network]", "[variants.flat.nothing]", "variants.flat.nothing"),
    ],
)
def test_wrong_hyperparameters_are_refused_by_key(tmp_path: Path, old: str, new: str, key: str) -> None:
    text = DEFAULT_FILE.read_text()
    assert old in text
    path = tmp_path / "train.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_settings("flat", path)
    assert caught.value.key.startswith(key)
    with pytest.raises(ConfigError, match="known: contact"):
        load_settings("moon")


def test_the_five_variants_differ_as_named() -> None:
    nets = {name: load_settings(name).network for name in ("contact", "flat", "edges_only", "distances_only", "plain")}
    assert (nets["contact"].distances, nets["contact"].contact_edges, nets["contact"].flat_ground) == (True, True, False)
    assert nets["flat"].flat_ground
    assert not nets["edges_only"].distances and nets["edges_only"].contact_edges
    assert nets["distances_only"].distances and not nets["distances_only"].contact_edges
    assert nets["plain"].kind == "plain"
