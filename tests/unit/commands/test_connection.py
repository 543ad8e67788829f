from __future__ import annotations

import pytest

from exporter.commands.connection import Capability, _print
from tests.fakes.one_broker import OneBroker


def test_what_no_answer_can_tell_is_said_beside_a_good_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    good = Capability("transactional ids", "no open transactions", (), unseen="a DENY on single ids cannot be seen")
    assert good.verdict == "ok"
    _print(OneBroker().cluster(), (good,))
    said = capsys.readouterr().out
    assert "transactional ids: a DENY on single ids cannot be seen" in said
