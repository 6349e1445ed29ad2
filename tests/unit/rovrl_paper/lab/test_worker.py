"""What a worker process tells the one that started it."""

import logging

from rovrl_paper.lab.pool import _Lines
from rovrl_paper.lab.worker import alarms


def test_our_own_alarms_reach_the_terminal_and_the_log(capsys):
    told = []
    with alarms(told.append):
        logging.getLogger("rovrl").warning("rovr/weight_disagreement is %.2f", 0.61)
    assert told == [{"warning": "rovr/weight_disagreement is 0.61"}]
    assert "rovr/weight_disagreement is 0.61" in capsys.readouterr().err  # the log of the workers
    _Lines().tell({"directory": "runs/x/rovr-gspo-1"} | told[0])
    assert capsys.readouterr().out.endswith("rovr-gspo-1: rovr/weight_disagreement is 0.61\n")
