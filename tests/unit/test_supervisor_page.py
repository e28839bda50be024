"""docs/safety.md shows the table that runs, word for word."""

import re
from pathlib import Path

import pytest

from onboard.safety import table_text

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "safety.md").read_text()


@pytest.mark.parametrize("part", ["transitions", "requests", "faults"])
def test_the_page_holds_what_the_table_says(part):
    shown = re.search(rf"<!-- {part} -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)
    assert shown is not None
    assert shown.group(1) == getattr(table_text, part)(), "print it anew: python -m onboard.safety.table_text"


def test_keys_named_on_the_page_exist_in_the_robots_file():
    text = (Path(__file__).resolve().parents[2] / "robots" / "manipulator.toml").read_text()
    for section, key in re.findall(r"`(actuators|safety|rates)\.([a-z_]+)`", PAGE):
        assert re.search(rf"^{key} = ", text, re.MULTILINE), f"{section}.{key}"
