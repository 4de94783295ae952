"""What the suites share: the addresses that the command stand gives, the
scripted engine's answers, and its books."""

import json
import os
import time
import urllib.request

URL = os.environ["LLMGW_URL"]
KEY = os.environ["LLMGW_KEY"]
ADMIN = os.environ["LLMGW_ADMIN"]
DEMO = os.environ["LLMGW_DEMO"]
DEMO_MODEL = os.environ["LLMGW_DEMO_MODEL"]
DEMO_KEY = os.environ["LLMGW_DEMO_KEY"]
ENGINE = os.environ["LLMGW_ENGINE"]
DOOR = os.environ["LLMGW_DOOR"]

PIECES = ["Grüße", " aus", " 東京", " 🌍", ' "ok\\', "\n."]
TEXT = "".join(PIECES)
PROMPT, CACHED, OUTPUT = 11, 3, 6
TOTAL = PROMPT + OUTPUT
ARGUMENTS = {"city": "Zürich", "days": 3}
SLOW_BY = 0.6
DIED = "scripted: the engine died"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="


def control(verb, name):
    with urllib.request.urlopen(f"{ENGINE}/-/{verb}/{name}", timeout=10) as answer:
        return json.load(answer)


def requests(name, mark=""):
    """The requests of CLIENT/BEHAVIOUR whose body holds mark."""
    return [r for r in control("seen", name)["requests"] if mark in r["body"]]


def running(name):
    return control("seen", name)["running"]


def release(name):
    control("release", name)


def gone(name):
    """Waits until the client's leave has reached the engine."""
    deadline = time.monotonic() + 5
    while True:
        seen = control("seen", name)
        if seen["requests"] and seen["running"] == 0:
            return
        assert time.monotonic() < deadline, f"the engine still runs {seen['running']} of {name} 5 s after the client left"
        time.sleep(0.01)


def make_key(**want):
    """Makes a key as a program does that has no client: by JSON to the admin listener."""
    call = urllib.request.Request(ADMIN + "/llmgw.api.v1.KeyService/CreateKey", json.dumps(want).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(call, timeout=10) as answer:
        return json.load(answer)["secret"]


def refused(name):
    """Waits until the server has refused a request that came through the door."""
    deadline = time.monotonic() + 5
    while not any(r["status"] == 429 for r in requests("door/" + name)):
        assert time.monotonic() < deadline, f"no 429 for {name} in 5 s"
        time.sleep(0.01)


def retried(name, wait):
    """The engine, or the door, saw two requests, the second after Retry-After was over. It is
    the client's first retry: one that came too early would have been refused by
    the gateway in between."""
    seen = requests(name)
    assert len(seen) == 2
    assert seen[1]["at_ms"] - seen[0]["at_ms"] >= wait * 1000 - 10  # a timer may be early
    assert seen[1]["header"]["X-Stainless-Retry-Count"] == ["1"]


def woken(client):
    """A client was told to come again while its model was loaded, and came again by itself
    when it was told to, until it was served. The first request waited for a second."""
    seen = requests(f"door/{client}-asleep")
    assert len(seen) >= 2
    assert (seen[0]["status"], seen[-1]["status"]) == (503, 200)
    assert seen[1]["at_ms"] - seen[0]["at_ms"] >= 1990
    assert seen[1]["header"]["X-Stainless-Retry-Count"] == ["1"]
