"""Writes down what became of each cell: test_CELL in test_CLIENT.py."""

import json
import os

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call" or report.outcome != "passed":
        client = item.path.stem.removeprefix("test_").replace("_", "-")
        cell = item.name.removeprefix("test_").replace("_", "-")
        outcome = {"passed": "pass", "failed": "fail", "skipped": "skip"}[report.outcome]
        with open(os.path.join(os.environ["LLMGW_RESULTS"], "python.jsonl"), "a") as f:
            f.write(json.dumps({"client": client, "cell": cell, "outcome": outcome, "ms": int(call.duration * 1000)}) + "\n")
    return report
