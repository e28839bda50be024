"""Every robot's file says what kind of robot it is, and is read by that kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.errors import ConfigError
from onboard.resources import root
from onboard.robot import load_robot
from onboard.robot_kinds import kinds, load_any

FILES = sorted((root() / "robots").glob("*.toml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_shipped_robot_passes_the_check(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", str(path)]) == 0
    assert f"{path}: good" in capsys.readouterr().out


def test_an_unknown_kind_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('format = 1\n[robot]\nname = "odd"\ntitle = "odd"\nkind = "octopus"\n')
    with pytest.raises(ConfigError, match=r"robot\.kind: is 'octopus': known kinds are .*strut_tower.*three_bar"):
        load_any(path)
    assert "three_bar" in kinds()


@pytest.mark.parametrize("kind", ["7", "true", "[]"])
def test_a_kind_that_is_no_name_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(f'format = 1\n[robot]\nname = "odd"\ntitle = "odd"\nkind = {kind}\n')
    with pytest.raises(ConfigError, match=r"odd\.toml: robot\.kind: "):
        load_any(path)


def test_commands_for_strut_towers_refuse_other_kinds() -> None:
    with pytest.raises(ConfigError, match=r"three_bar\.toml: robot\.kind: is 'three_bar': this command takes"):
        load_robot(root() / "robots" / "three_bar.toml")
    assert main(["run", str(root() / "robots" / "vine.toml"), "--duration", "1"]) == 2


def test_a_wrong_value_in_another_kind_of_robot_names_file_and_key(tmp_path: Path) -> None:
    text = (root() / "robots" / "three_bar.toml").read_text()
    path = tmp_path / "bad.toml"
    path.write_text(text.replace("cap_distance_u = 2.95", "cap_distance_u = -2.95"))
    with pytest.raises(ConfigError, match=r"bad\.toml: bodies\.cap_distance_u: .*"):
        load_any(path)
