import openai
import pytest
import tiktoken
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from stand import (ARGUMENTS, CACHED, DIED, IMAGE, KEY, OUTPUT, PIECES, PROMPT, TEXT, TOTAL, URL, gone, requests, retried)

ME = "langchain-python"
WEATHER = {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}


def model(how, **more):
    return ChatOpenAI(model=f"{ME}/{how}", base_url=URL + "/v1", api_key=KEY, **{"timeout": 20, **more})


def test_chat():
    got = model("plain").invoke("cell chat")
    assert got.content == TEXT
    usage = got.usage_metadata
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (PROMPT, OUTPUT, TOTAL)
    assert usage["input_token_details"]["cache_read"] == CACHED


def test_stream():
    # With a base URL of one's own LangChain asks for no usage.
    chunks = list(model("plain").stream("cell stream only"))
    assert [c.content for c in chunks if c.content] == PIECES
    assert not any(c.usage_metadata for c in chunks)
    assert '"include_usage":true' in requests(f"{ME}/plain", "cell stream only")[0]["body"]


def test_stream_usage():
    chunks = list(model("plain", stream_usage=True).stream("cell usage"))
    assert "".join(c.content for c in chunks) == TEXT
    assert [c.usage_metadata["total_tokens"] for c in chunks if c.usage_metadata] == [TOTAL]


def test_framing():
    assert [c.content for c in model("framing").stream("cell framing") if c.content] == PIECES


def test_tools():
    bound = model("plain").bind_tools([WEATHER])
    got = bound.invoke("cell tools")
    assert (got.tool_calls[0]["name"], got.tool_calls[0]["args"]) == ("weather", ARGUMENTS)
    again = bound.invoke([HumanMessage("cell tools"), got, ToolMessage("12 °C", tool_call_id=got.tool_calls[0]["id"])])
    assert again.content == TEXT


def test_tools_stream():
    whole = None
    for chunk in model("framing").bind_tools([WEATHER]).stream("cell tools"):
        whole = chunk if whole is None else whole + chunk
    assert (whole.tool_calls[0]["name"], whole.tool_calls[0]["args"]) == ("weather", ARGUMENTS)


def test_vision():
    url = "data:image/png;base64," + IMAGE
    got = model("plain").invoke([HumanMessage([{"type": "text", "text": "cell vision"}, {"type": "image_url", "image_url": {"url": url}}])])
    assert got.content == TEXT
    assert url in requests(f"{ME}/plain", "cell vision")[0]["body"]


def test_embeddings(monkeypatch):
    # LangChain counts tokens itself and sends their ids. Its vocabularies are
    # downloaded; one token per byte does as well.
    bytewise = tiktoken.Encoding("bytes", pat_str=r"[\s\S]", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: bytewise)
    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: bytewise)
    embeddings = OpenAIEmbeddings(model=f"{ME}/plain", base_url=URL + "/v1", api_key=KEY)
    assert embeddings.embed_documents(["a", "b"])[1] == pytest.approx([1, -0.5, 0.25, 1])
    assert '"input":[[97],[98]]' in requests(f"{ME}/plain", "encoding_format")[0]["body"]
    plain = OpenAIEmbeddings(model=f"{ME}/plain", base_url=URL + "/v1", api_key=KEY, check_embedding_ctx_length=False)
    assert plain.embed_query("cell strings") == pytest.approx([1, -0.5, 0.25, 0])


def test_errors():
    for how, kind in {"s400": openai.BadRequestError, "s401": openai.AuthenticationError, "s404": openai.NotFoundError,
                      "s429": openai.RateLimitError, "s500": openai.InternalServerError}.items():
        with pytest.raises(kind) as caught:
            model(how, max_retries=0).invoke("cell errors")
        assert caught.value.status_code == int(how[1:])
        assert f"scripted failure {how[1:]}" in str(caught.value)
        assert len(requests(f"{ME}/{how}")) == 1


def test_retry_limited():
    assert model("limited").invoke("cell retry").content == TEXT
    retried(f"{ME}/limited", 1)


def broken(how, why):
    got = ""
    with pytest.raises(openai.APIError, match=why):
        for chunk in model(how).stream("cell " + how):
            got += chunk.content
    assert got == "".join(PIECES[:2])
    assert len(requests(f"{ME}/{how}")) == 1


def test_cut():
    broken("cut", "engine failed before its answer was complete")


def test_short():
    broken("short", "engine failed before its answer was complete")


def test_errorevent():
    broken("errorevent", DIED)


def test_abort():
    stream = model("endless").stream("cell abort")
    for _, _chunk in zip(range(5), stream):
        pass
    stream.close()
    gone(f"{ME}/endless")


def test_timeout():
    with pytest.raises(openai.APITimeoutError):
        model("hang", timeout=1, max_retries=0).invoke("cell timeout")
    gone(f"{ME}/hang")
