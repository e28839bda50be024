"""From the box over USB to the first update over the air: one board, as a person does it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.link.broker import EmbeddedBroker
from sim.flash.usb_board import UsbBoard
from tests.flash.air import NEW, SPEC, firmware, snapshot
from tests.flash.support import booted, secrets_file


@pytest.mark.long
def test_a_flashed_strut_is_updated_over_the_air_and_can_be_flashed_again(
    usb: Callable[..., UsbBoard], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    one, key = usb(), tmp_path / "update.key"
    assert main(["update", "keygen", "--key", str(key)]) == 0
    with EmbeddedBroker(SPEC.link.prefix, port=0) as broker:
        secrets = secrets_file(tmp_path, broker.port, '\n[update]\nkey = "update.pub"\n')
        flashing = ["flash", "manipulator", f"strut07={one.port}", "--secrets", str(secrets), "--firmware", str(snapshot())]
        assert main([*flashing, "--wait-link", "20"]) == 0
        words = ["update", "manipulator", "--board", "strut07", "--key", str(key), "--firmware", str(firmware())]
        assert main([*words, "--broker", f"mqtt://127.0.0.1:{broker.port}", "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out.splitlines()[-1])["boards"][0]["version"] == NEW
        secret = "".join(line for line in key.read_text().splitlines() if "-" not in line)
        assert secret not in out + err + one.output.decode(errors="replace")
        one.unplug()
        one.plug_in()
        assert booted(one) == NEW
        flashing[2] = f"strut07={one.port}"
        assert main([*flashing, "--wait-link", "20"]) == 0  # over USB it may go back
    assert (one.jail / "slot").read_text() == "a"
