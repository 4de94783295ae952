import datetime
import threading
import time

import anthropic
import pytest
from stand import (ARGUMENTS, CACHED, DEMO, DEMO_KEY, DEMO_MODEL, DIED, DOOR, IMAGE, KEY, OUTPUT, PIECES, PROMPT, SLOW_BY, TEXT, URL,
                   gone, make_key, refused, release, requests, retried, running)

ME = "anthropic-python"
client = anthropic.Anthropic(base_url=URL, api_key=KEY, timeout=20)
once = client.with_options(max_retries=0)
WEATHER = [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]


def ask(how, mark, **more):
    who = more.pop("who", client)
    return who.messages.create(model=f"{ME}/{how}", max_tokens=100, messages=[{"role": "user", "content": mark}], **more)


def stream(how, mark, **more):
    return client.messages.stream(model=f"{ME}/{how}", max_tokens=100, messages=[{"role": "user", "content": mark}], **more)


def test_demo():
    demo = client.with_options(base_url=DEMO, api_key=DEMO_KEY)
    want = dict(model=DEMO_MODEL, max_tokens=24, messages=[{"role": "user", "content": "demo"}])
    whole = demo.messages.create(**want)
    assert len(whole.content[0].text.split(" ")) == whole.usage.output_tokens
    with demo.messages.stream(**want) as s:
        got = s.get_final_message()
    assert got.content[0].text == whole.content[0].text
    assert got.usage.output_tokens == whole.usage.output_tokens


def test_chat():
    got = ask("plain", "cell chat")
    assert (got.content[0].text, got.stop_reason) == (TEXT, "end_turn")
    assert (got.usage.input_tokens, got.usage.cache_read_input_tokens, got.usage.output_tokens) == (PROMPT - CACHED, CACHED, OUTPUT)
    header = requests(f"{ME}/plain", "cell chat")[0]["header"]
    assert got._request_id == header["X-Request-Id"][0]
    assert header["Anthropic-Version"] == [client.default_headers["anthropic-version"]]
    assert "X-Api-Key" not in header


def test_stream():
    with stream("plain", "cell stream") as s:
        assert list(s.text_stream) == PIECES
        got = s.get_final_message()
    assert got.stop_reason == "end_turn"
    assert (got.usage.input_tokens, got.usage.cache_read_input_tokens, got.usage.output_tokens) == (PROMPT - CACHED, CACHED, OUTPUT)


def test_framing():
    with stream("framing", "cell framing") as s:
        assert list(s.text_stream) == PIECES
        assert s.get_final_message().usage.output_tokens == OUTPUT


def test_slow():
    begin = time.monotonic()
    with stream("slow", "cell slow") as s:
        assert s.get_final_text() == TEXT
    assert time.monotonic() - begin >= SLOW_BY


def test_tools():
    got = ask("plain", "cell tools", tools=WEATHER)
    call = got.content[0]
    assert (got.stop_reason, call.id, call.name, call.input) == ("tool_use", "toolu_1", "weather", ARGUMENTS)
    again = client.messages.create(model=f"{ME}/plain", max_tokens=100, tools=WEATHER, messages=[
        {"role": "user", "content": "cell tools"}, {"role": "assistant", "content": got.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "12 °C"}]}])
    assert again.content[0].text == TEXT


def test_tools_stream():
    with stream("framing", "cell tools", tools=WEATHER) as s:
        got = s.get_final_message()
    assert (got.stop_reason, got.content[0].name, got.content[0].input) == ("tool_use", "weather", ARGUMENTS)


def test_vision():
    got = client.messages.create(model=f"{ME}/plain", max_tokens=100, messages=[{"role": "user", "content": [
        {"type": "text", "text": "cell vision"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}}]}])
    assert got.content[0].text == TEXT
    assert IMAGE in requests(f"{ME}/plain", "cell vision")[0]["body"]


def test_count_tokens():
    got = client.messages.count_tokens(model=f"{ME}/plain", messages=[{"role": "user", "content": "cell count"}])
    assert got.input_tokens == PROMPT


def test_models():
    got = client.models.retrieve(f"{ME}/plain")
    assert (got.id, got.type) == (f"{ME}/plain", "model")
    assert f"{ME}/plain" in [m.id for m in client.models.list(limit=20)]  # over several pages


def test_errors():
    kinds = {"s400": (anthropic.BadRequestError, "invalid_request_error"),
             "s401": (anthropic.AuthenticationError, "authentication_error"),
             "s403": (anthropic.PermissionDeniedError, "permission_error"),
             "s404": (anthropic.NotFoundError, "not_found_error"),
             "s413": (anthropic.ContentTooLargeError, "request_too_large"),
             "s422": (anthropic.UnprocessableEntityError, "invalid_request_error"),
             "s429": (anthropic.RateLimitError, "rate_limit_error"),
             "s500": (anthropic.InternalServerError, "api_error"),
             "s529": (anthropic.OverloadedError, "overloaded_error"),
             "html502": (anthropic.InternalServerError, "api_error")}
    for how, (kind, name) in kinds.items():
        with pytest.raises(kind) as caught:
            ask(how, "cell errors", who=once)
        e = caught.value
        assert type(e) is kind
        assert e.status_code == int(how[-3:])
        assert (e.body["type"], e.body["error"]["type"]) == ("error", name)
        assert "scripted failure" in e.body["error"]["message"] or how == "html502"
        seen = requests(f"{ME}/{how}")
        assert len(seen) == 1
        assert e.request_id == e.body["request_id"] == seen[0]["header"]["X-Request-Id"][0]


def test_no_retry():
    begin = time.monotonic()
    with pytest.raises(anthropic.NotFoundError) as caught:
        ask("no-such", "x")
    assert caught.value.body["error"]["type"] == "not_found_error"
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - begin < 5


def test_retry_limited():
    assert ask("limited", "cell retry").content[0].text == TEXT
    retried(f"{ME}/limited", 1)


def test_retry_loading():
    assert ask("loading", "cell retry").content[0].text == TEXT
    retried(f"{ME}/loading", 1)


def test_retry_closing():
    assert ask("closing", "cell retry").content[0].text == TEXT
    retried(f"{ME}/closing", 0)


def broken(how):
    got = ""
    with pytest.raises(anthropic.APIStatusError) as caught, stream(how, "cell " + how) as s:
        for piece in s.text_stream:
            got += piece
    assert got == "".join(PIECES[:2])
    assert len(requests(f"{ME}/{how}")) == 1
    return caught.value.body


def test_cut():
    body = broken("cut")
    assert (body["type"], body["error"]["type"]) == ("error", "api_error")


def test_short():
    assert broken("short")["error"]["type"] == "api_error"


def test_errorevent():
    assert broken("errorevent")["error"] == {"type": "overloaded_error", "message": DIED}


def test_reset():
    got = ""
    with pytest.raises(anthropic.APIStatusError), stream("reset", "cell reset") as s:
        for piece in s.text_stream:
            got += piece
            release(f"{ME}/reset")
    assert got and TEXT.startswith(got)
    assert len(requests(f"{ME}/reset")) == 1


def test_abort():
    with stream("endless", "cell abort") as s:
        for _, _event in zip(range(6), s):
            pass
        assert running(f"{ME}/endless") == 1
    gone(f"{ME}/endless")


def test_timeout():
    with pytest.raises(anthropic.APITimeoutError):
        ask("hang", "cell timeout", who=once, timeout=1)
    gone(f"{ME}/hang")


def through_door(name, who=client, **more):
    return who.with_options(base_url=f"{DOOR}/{name}", **more)


def test_wrong_key():
    for name, wrong, says in (f"{ME}-other", DEMO_KEY, "not known here"), (f"{ME}-cut", KEY[:-3], "cannot be one of this server"):
        with pytest.raises(anthropic.AuthenticationError) as caught:
            ask("plain", "x", who=through_door(name, api_key=wrong))
        e = caught.value
        assert (e.status_code, e.body["error"]["type"]) == (401, "authentication_error")
        assert says in e.message and wrong not in str(e.response.headers) + e.response.text
        assert [r["status"] for r in requests(f"door/{name}")] == [401]


def test_key_header():
    for name, how, want in (("own", {"api_key": KEY}, (None, ["Bearer " + KEY])),
                            ("x", {"default_headers": {"x-api-key": KEY}}, ([KEY], None))):
        who = anthropic.Anthropic(base_url=f"{DOOR}/{ME}-{name}", **how)
        assert ask("plain", "cell key-header", who=who).content[0].text == TEXT
        header = requests(f"door/{ME}-{name}")[0]["header"]
        assert (header.get("X-Api-Key"), header.get("Authorization")) == want
    for seen in requests(f"{ME}/plain", "cell key-header"):
        assert KEY not in str(seen["header"])


def test_not_allowed():
    mine = client.with_options(api_key=make_key(models=[f"{ME}/plain"]))
    assert ask("plain", "cell not-allowed", who=mine).content[0].text == TEXT
    said = []
    for how in "slow", "no-such":
        with pytest.raises(anthropic.NotFoundError) as caught:
            ask(how, "cell not-allowed", who=mine)
        said.append(caught.value.body["error"]["message"].replace(how, "HOW"))
    assert said[0] == said[1]
    assert requests(f"{ME}/slow", "cell not-allowed") == []
    assert [m.id for m in mine.models.list()] == [f"{ME}/plain"]


def test_rate_headers():
    mine = once.with_options(api_key=make_key(limits={"requests_per_minute": 2, "tokens_per_minute": 100000}))
    for left in "1", "0":
        got = mine.messages.with_raw_response.create(model=f"{ME}/plain", max_tokens=100, messages=[{"role": "user", "content": "cell rate"}])
        assert got.parse().content[0].text == TEXT
        header = {k.removeprefix("anthropic-ratelimit-"): v for k, v in got.headers.items()}
        assert (header["requests-limit"], header["requests-remaining"], header["tokens-limit"]) == ("2", left, "100000")
        assert 0 < int(header["tokens-remaining"]) < 100000
        assert datetime.datetime.fromisoformat(header["requests-reset"]) > datetime.datetime.now(datetime.UTC)
    with pytest.raises(anthropic.RateLimitError) as caught:
        ask("plain", "cell rate", who=mine)
    e = caught.value
    assert (e.body["error"]["type"], e.response.headers["anthropic-ratelimit-requests-remaining"]) == ("rate_limit_error", "0")
    assert 1 <= int(e.response.headers["retry-after"]) <= 61


def test_retry_rate():
    mine = client.with_options(api_key=make_key(limits={"concurrency": 1}))
    held = ask("endless", "cell retry-rate", who=mine, stream=True)
    next(held)
    name = f"{ME}-rate"

    def let_go():
        refused(name)
        held.close()
    waits = threading.Thread(target=let_go)
    waits.start()
    assert ask("plain", "cell retry-rate", who=through_door(name, mine)).content[0].text == TEXT
    waits.join()
    retried(f"door/{name}", 1)


def test_no_retry_budget():
    mine = through_door(f"{ME}-budget", api_key=make_key(budget=f"0.00000{OUTPUT}/total"))
    body = dict(model=f"{ME}/plain", messages=[{"role": "user", "content": "cell budget"}])
    assert mine.messages.create(**body, max_tokens=OUTPUT).content[0].text == TEXT
    with pytest.raises(anthropic.RateLimitError) as caught:
        mine.messages.create(**body, max_tokens=OUTPUT + 1)
    e = caught.value
    assert "budget" in e.message and e.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in e.response.headers and "retry-after-ms" not in e.response.headers
    assert [r["status"] for r in requests(f"door/{ME}-budget")] == [200, 429]
