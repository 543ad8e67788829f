"""Flags that commands share."""

from __future__ import annotations

import pytest

from exporter.cli import main
from exporter.commands.settings import duration


@pytest.mark.parametrize("flag", [("transactions", "stalled", "--timeout"), ("audit", "markers", "--since")])
def test_a_duration_for_which_no_thread_can_wait_is_refused(
    flag: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert duration("100y") == 100 * 365 * 86_400
    assert main([*flag, "999999999999999y", "--bootstrap-server", "127.0.0.1:1"]) == 2
    assert "must be 100y or less" in capsys.readouterr().err
