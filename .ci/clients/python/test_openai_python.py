import re
import threading
import time

import openai
import pytest
from stand import (ARGUMENTS, CACHED, DEMO, DEMO_KEY, DEMO_MODEL, DIED, DOOR, IMAGE, KEY, OUTPUT, PIECES, PROMPT, SLOW_BY, TEXT, TOTAL,
                   URL, gone, make_key, refused, release, requests, retried, running, woken)

import json

ME = "openai-python"
client = openai.OpenAI(base_url=URL + "/v1", api_key=KEY, timeout=20)
once = client.with_options(max_retries=0)
WEATHER = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]


def ask(how, mark, **more):
    who = more.pop("who", client)
    return who.chat.completions.create(model=f"{ME}/{how}", messages=[{"role": "user", "content": mark}], **more)


def read(stream):
    """Takes a stream to its end: its pieces, the finish reason, its usage and the number of chunks without a choice."""
    pieces, finish, usage, empty = [], None, None, 0
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        if not chunk.choices:
            empty += 1
            continue
        if chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        finish = chunk.choices[0].finish_reason or finish
    return pieces, finish, usage, empty


def test_demo():
    demo = client.with_options(base_url=DEMO + "/v1", api_key=DEMO_KEY)
    want = dict(model=DEMO_MODEL, messages=[{"role": "user", "content": "demo"}], max_tokens=24)
    whole = demo.chat.completions.create(**want)
    text = whole.choices[0].message.content
    assert len(text.split(" ")) == whole.usage.completion_tokens
    pieces, _, usage, _ = read(demo.chat.completions.create(**want, stream=True, stream_options={"include_usage": True}))
    assert "".join(pieces) == text
    assert usage.total_tokens == whole.usage.total_tokens


def test_chat():
    got = ask("plain", "cell chat")
    assert got.choices[0].message.content == TEXT
    assert got.choices[0].finish_reason == "stop"
    assert (got.usage.prompt_tokens, got.usage.total_tokens) == (PROMPT, TOTAL)
    assert got.usage.prompt_tokens_details.cached_tokens == CACHED
    assert got._request_id == requests(f"{ME}/plain", "cell chat")[0]["header"]["X-Request-Id"][0]


def test_stream():
    assert read(ask("plain", "cell stream only", stream=True)) == (PIECES, "stop", None, 0)
    assert '"include_usage":true' in requests(f"{ME}/plain", "cell stream only")[0]["body"]


def test_stream_usage():
    pieces, finish, usage, empty = read(ask("plain", "cell usage", stream=True, stream_options={"include_usage": True}))
    assert (pieces, finish, empty) == (PIECES, "stop", 1)
    assert (usage.prompt_tokens, usage.total_tokens, usage.prompt_tokens_details.cached_tokens) == (PROMPT, TOTAL, CACHED)


def test_framing():
    assert read(ask("framing", "cell framing", stream=True)) == (PIECES, "stop", None, 0)
    _, _, usage, _ = read(ask("framing", "cell framing", stream=True, stream_options={"include_usage": True}))
    assert usage.total_tokens == TOTAL


def test_slow():
    begin = time.monotonic()
    assert read(ask("slow", "cell slow", stream=True))[0] == PIECES
    assert time.monotonic() - begin >= SLOW_BY


def test_tools():
    got = ask("plain", "cell tools", tools=WEATHER)
    call = got.choices[0].message.tool_calls[0]
    assert got.choices[0].finish_reason == "tool_calls"
    assert (call.id, call.function.name, json.loads(call.function.arguments)) == ("call_1", "weather", ARGUMENTS)
    again = client.chat.completions.create(model=f"{ME}/plain", tools=WEATHER, messages=[
        {"role": "user", "content": "cell tools"}, got.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "12 °C"}])
    assert again.choices[0].message.content == TEXT


def test_tools_stream():
    arguments, names = "", []
    for chunk in ask("framing", "cell tools", tools=WEATHER, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments += call.function.arguments or ""
            names += [call.function.name] if call.function.name else []
    assert (names, json.loads(arguments)) == (["weather"], ARGUMENTS)


def test_vision():
    got = client.chat.completions.create(model=f"{ME}/plain", messages=[{"role": "user", "content": [
        {"type": "text", "text": "cell vision"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + IMAGE, "detail": "low"}}]}])
    assert got.choices[0].message.content == TEXT
    assert "data:image/png;base64," + IMAGE in requests(f"{ME}/plain", "cell vision")[0]["body"]


def test_embeddings():
    got = client.embeddings.create(model=f"{ME}/plain", input=["cell base64", "b"])
    assert got.data[1].embedding == [1, -0.5, 0.25, 1]
    assert got.usage.prompt_tokens == PROMPT
    assert '"encoding_format":"base64"' in requests(f"{ME}/plain", "cell base64")[0]["body"]
    assert client.embeddings.create(model=f"{ME}/plain", input="c", encoding_format="float").data[0].embedding == [1, -0.5, 0.25, 0]
    assert len(client.embeddings.create(model=f"{ME}/plain", input=[[1, 2], [3], [4]]).data) == 3


def test_models():
    assert client.models.retrieve(f"{ME}/plain").id == f"{ME}/plain"
    assert f"{ME}/plain" in [m.id for m in client.models.list()]


def test_errors():
    kinds = {"s400": openai.BadRequestError, "s401": openai.AuthenticationError, "s403": openai.PermissionDeniedError,
             "s404": openai.NotFoundError, "s409": openai.ConflictError, "s413": openai.APIStatusError,
             "s422": openai.UnprocessableEntityError, "s429": openai.RateLimitError, "s500": openai.InternalServerError,
             "s503": openai.InternalServerError, "html502": openai.InternalServerError}
    for how, kind in kinds.items():
        with pytest.raises(kind) as caught:
            ask(how, "cell errors", who=once)
        e = caught.value
        assert type(e) is kind
        assert e.status_code == int(how[-3:])
        assert "scripted failure" in e.message or how == "html502"
        assert isinstance(e.type, str) and e.param is None
        assert e.code is None or not re.fullmatch("[0-9]+", e.code)
        seen = requests(f"{ME}/{how}")
        assert len(seen) == 1
        assert e.request_id == seen[0]["header"]["X-Request-Id"][0]


def test_no_retry():
    begin = time.monotonic()
    with pytest.raises(openai.NotFoundError) as caught:
        ask("no-such", "x")
    e = caught.value
    assert (e.code, e.type, e.param) == ("model_not_found", "invalid_request_error", "model")
    assert e.response.headers["x-should-retry"] == "false"
    assert time.monotonic() - begin < 5


def test_retry_limited():
    assert ask("limited", "cell retry").choices[0].message.content == TEXT
    retried(f"{ME}/limited", 1)


def test_retry_loading():
    assert ask("loading", "cell retry").choices[0].message.content == TEXT
    retried(f"{ME}/loading", 1)


def test_retry_closing():
    assert ask("closing", "cell retry").choices[0].message.content == TEXT
    retried(f"{ME}/closing", 0)


def test_asleep():
    assert ask("asleep", "cell asleep", who=through_door(f"{ME}-asleep"), max_tokens=3).usage.completion_tokens == 3
    woken(ME)


def broken(how):
    got = ""
    with pytest.raises(openai.APIError) as caught:
        for chunk in ask(how, "cell " + how, stream=True):
            got += chunk.choices[0].delta.content or "" if chunk.choices else ""
    assert got == "".join(PIECES[:2])
    assert len(requests(f"{ME}/{how}")) == 1
    return caught.value


def test_cut():
    e = broken("cut")
    assert (e.code, e.type) == ("upstream_failed", "server_error")


def test_short():
    assert broken("short").code == "upstream_failed"


def test_errorevent():
    assert DIED in broken("errorevent").message


def test_reset():
    got = ""
    with pytest.raises(openai.APIError):
        for chunk in ask("reset", "cell reset", stream=True):
            if chunk.choices and chunk.choices[0].delta.content:
                got += chunk.choices[0].delta.content
                release(f"{ME}/reset")
    assert got and TEXT.startswith(got)
    assert len(requests(f"{ME}/reset")) == 1


def test_abort():
    stream = ask("endless", "cell abort", stream=True)
    for _, _chunk in zip(range(5), stream):
        pass
    assert running(f"{ME}/endless") == 1
    stream.close()
    gone(f"{ME}/endless")


def test_timeout():
    with pytest.raises(openai.APITimeoutError):
        ask("hang", "cell timeout", who=once, timeout=1)
    gone(f"{ME}/hang")


def test_responses():
    got = client.responses.create(model=f"{ME}/plain", input="cell responses")
    assert got.output_text == TEXT
    assert (got.usage.total_tokens, got.usage.input_tokens_details.cached_tokens) == (TOTAL, CACHED)
    pieces, last = [], None
    for event in client.responses.create(model=f"{ME}/framing", input="cell responses", stream=True):
        if event.type == "response.output_text.delta":
            pieces.append(event.delta)
        last = event
    assert pieces == PIECES
    assert last.type == "response.completed" and last.response.usage.total_tokens == TOTAL


def through_door(name, who=client, **more):
    return who.with_options(base_url=f"{DOOR}/{name}/v1", **more)


def test_wrong_key():
    for name, wrong, says in (f"{ME}-other", DEMO_KEY, "not known here"), (f"{ME}-cut", KEY[:-3], "cannot be one of this server"):
        with pytest.raises(openai.AuthenticationError) as caught:
            ask("plain", "x", who=through_door(name, api_key=wrong))
        e = caught.value
        assert (e.status_code, e.code) == (401, "invalid_api_key")
        assert says in e.message and wrong not in str(e.response.headers) + e.response.text
        assert [r["status"] for r in requests(f"door/{name}")] == [401]


def test_key_header():
    azure = openai.AzureOpenAI(base_url=f"{DOOR}/{ME}-azure/v1", api_key=KEY, api_version="v1")
    assert azure.responses.create(model=f"{ME}/plain", input="cell key-header").output_text == TEXT
    header = requests(f"door/{ME}-azure")[0]["header"]
    assert header["Api-Key"] == [KEY] and "Authorization" not in header
    assert KEY not in str(requests(f"{ME}/plain", "cell key-header")[0]["header"])


def test_not_allowed():
    mine = client.with_options(api_key=make_key(models=[f"{ME}/plain"]))
    assert ask("plain", "cell not-allowed", who=mine).choices[0].message.content == TEXT
    said = []
    for how in "slow", "no-such":
        with pytest.raises(openai.NotFoundError) as caught:
            ask(how, "cell not-allowed", who=mine)
        said.append(caught.value.response.text.replace(how, "HOW"))
    assert said[0] == said[1] and "model_not_found" in said[0]
    assert requests(f"{ME}/slow", "cell not-allowed") == []
    assert [m.id for m in mine.models.list()] == [f"{ME}/plain"]


def test_rate_headers():
    mine = once.with_options(api_key=make_key(limits={"requests_per_minute": 2, "tokens_per_minute": 100000}))
    for left in "1", "0":
        got = mine.chat.completions.with_raw_response.create(model=f"{ME}/plain", messages=[{"role": "user", "content": "cell rate"}])
        assert got.parse().choices[0].message.content == TEXT
        assert (got.headers["x-ratelimit-limit-requests"], got.headers["x-ratelimit-remaining-requests"]) == ("2", left)
        assert got.headers["x-ratelimit-limit-tokens"] == "100000" and 0 < int(got.headers["x-ratelimit-remaining-tokens"]) < 100000
        assert re.fullmatch(r"(1m)?\d+(\.\d+)?s", got.headers["x-ratelimit-reset-requests"])
    with pytest.raises(openai.RateLimitError) as caught:
        ask("plain", "cell rate", who=mine)
    e = caught.value
    header = e.response.headers
    assert (e.code, header["x-ratelimit-remaining-requests"]) == ("rate_limit_exceeded", "0")
    assert 1 <= int(header["retry-after"]) <= 61 and 0 < int(header["retry-after-ms"]) <= 61000


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
    assert ask("plain", "cell retry-rate", who=through_door(name, mine)).choices[0].message.content == TEXT
    waits.join()
    retried(f"door/{name}", 1)


def test_no_retry_budget():
    mine = through_door(f"{ME}-budget", api_key=make_key(budget=f"0.00000{OUTPUT}/total"))
    assert ask("plain", "cell budget", who=mine, max_tokens=OUTPUT).choices[0].message.content == TEXT
    with pytest.raises(openai.RateLimitError) as caught:
        ask("plain", "cell budget", who=mine, max_tokens=OUTPUT + 1)
    e = caught.value
    assert (e.code, e.type, e.response.headers["x-should-retry"]) == ("insufficient_quota", "insufficient_quota", "false")
    assert "retry-after" not in e.response.headers and "retry-after-ms" not in e.response.headers
    assert [r["status"] for r in requests(f"door/{ME}-budget")] == [200, 429]
