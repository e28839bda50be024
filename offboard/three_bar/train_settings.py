"""One idea: every hyperparameter of a training run stands in a TOML; one table a variant overrides the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from offboard.three_bar.network import NetworkSettings
from onboard.config import Section, convert, read_toml
from onboard.errors import ConfigError

DEFAULT_FILE = Path(__file__).with_name("train.toml")


class DataTable(Section, frozen=True):
    """[data]: folders of episodes; how often driven (MPPI) windows are drawn against the others."""

    folders: Annotated[list[str], Meta(min_length=1)]
    driven_weight: Annotated[float, Meta(gt=0.0, le=100.0)]


class Stage(Section, frozen=True):
    """One stage: unroll over `chunks` for `share` of all updates."""

    chunks: Annotated[int, Meta(ge=1, le=100)]
    share: Annotated[float, Meta(gt=0.0, le=1.0)]


class Training(Section, frozen=True):
    """[training]."""

    seed: Annotated[int, Meta(ge=0, le=2**31)]
    updates: Annotated[int, Meta(ge=1, le=10_000_000)]
    batch: Annotated[int, Meta(ge=1, le=100_000)]
    learning_rate: Annotated[float, Meta(gt=0.0, le=1.0)]
    final_learning_rate: Annotated[float, Meta(gt=0.0, le=1.0)]
    warm_up: Annotated[int, Meta(ge=0, le=100_000)]
    weight_decay: Annotated[float, Meta(ge=0.0, le=1.0)]
    clip: Annotated[float, Meta(gt=0.0, le=1e6)]
    average: Annotated[float, Meta(ge=0.0, lt=1.0)]
    position_scale_u: Annotated[float, Meta(gt=0.0, le=100.0)]
    velocity_scale_u_s: Annotated[float, Meta(gt=0.0, le=100.0)]
    velocity_weight: Annotated[float, Meta(ge=0.0, le=100.0)]
    centre_weight: Annotated[float, Meta(ge=0.0, le=100.0)]
    check_every: Annotated[int, Meta(ge=1, le=1_000_000)]
    check_windows: Annotated[int, Meta(ge=1, le=1_000_000)]
    patience: Annotated[int, Meta(ge=1, le=1_000_000)]
    horizon_chunks: Annotated[int, Meta(ge=1, le=100)]
    stages: Annotated[list[Stage], Meta(min_length=1)]


class TrainSettings(Section, frozen=True):
    """A whole run."""

    data: DataTable
    network: NetworkSettings
    training: Training


def load_settings(variant: str, path: Path = DEFAULT_FILE) -> TrainSettings:
    """The settings of a variant: the file's tables with those of [variants.<variant>] on top. Raises ConfigError by key."""
    raw = read_toml(path)
    variants = raw.pop("variants", {})
    if variant not in variants:
        raise ConfigError(str(path), "variants", f"no variant {variant!r}; known: {', '.join(sorted(variants))}")
    for table, values in variants[variant].items():
        if not isinstance(values, dict) or not isinstance(raw.get(table), dict):
            raise ConfigError(str(path), f"variants.{variant}.{table}", "overrides a table that does not exist")
        raw[table] = {**raw[table], **values}
    settings = convert(str(path), "", raw, TrainSettings)
    total = sum(stage.share for stage in settings.training.stages)
    if abs(total - 1.0) > 1e-6:
        raise ConfigError(str(path), "training.stages", f"shares add up to {total}, not to 1")
    longest = max(stage.chunks for stage in settings.training.stages)
    if longest > settings.training.horizon_chunks:
        raise ConfigError(str(path), "training.stages", f"{longest} chunks, longer than horizon_chunks")
    if settings.network.chunk_steps % 2:
        raise ConfigError(str(path), "network.chunk_steps", "must be even: rest lengths are read at half chunks")
    return settings


def overridden(settings: TrainSettings, training: dict[str, int | None], folders: tuple[str, ...] | None) -> TrainSettings:
    """Settings with some of [training] and the data folders replaced; None leaves a value as it is."""
    raw = msgspec.to_builtins(settings)
    raw["training"].update({key: value for key, value in training.items() if value is not None})
    if folders:
        raw["data"]["folders"] = list(folders)
    return convert("command line", "", raw, TrainSettings)
