"""The other side of KV events, as vLLM has it: libzmq by pyzmq, and msgspec.

    peer.py pub array|map    publishes as an engine does
    peer.py sub array|map EVENTS REPLAY    reads as a router does

It takes commands as lines and answers each with a line of JSON.
"""

import json
import sys
import threading
import time
from collections import deque
from typing import Any, Optional, Union

import msgspec
import zmq
from zmq.utils.monitor import recv_monitor_message

Hash = Union[int, bytes]


def batch_type(form):
    struct = dict(omit_defaults=True, gc=False, array_like=form == "array")

    class Stored(msgspec.Struct, tag="BlockStored", **struct):
        block_hashes: list[Hash]
        parent_block_hash: Optional[Hash]
        token_ids: list[int]
        block_size: int
        lora_id: Optional[int]
        medium: Optional[str]
        lora_name: Optional[str]
        extra_keys: Optional[list[Optional[tuple[Any, ...]]]] = None
        group_idx: Optional[int] = None
        kv_cache_spec_kind: Optional[str] = None
        kv_cache_spec_sliding_window: Optional[int] = None

    class Removed(msgspec.Struct, tag="BlockRemoved", **struct):
        block_hashes: list[Hash]
        medium: Optional[str]
        group_idx: Optional[int] = None

    class Cleared(msgspec.Struct, tag="AllBlocksCleared", **struct):
        pass

    class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
        ts: float
        events: list[Union[Stored, Removed, Cleared]]
        data_parallel_rank: Optional[int] = None

    return Batch, Stored, Removed, Cleared


def commands():
    for line in sys.stdin:
        yield line.split()


def answer(**value):
    print(json.dumps(value), flush=True)


def bound(socket):
    return socket.getsockopt_string(zmq.LAST_ENDPOINT)


END = (-1).to_bytes(8, "big", signed=True)


def publish(form):
    Batch, Stored, Removed, Cleared = batch_type(form)
    context = zmq.Context()
    pub = context.socket(zmq.PUB)
    # A peer that does not answer a PING in time is dropped.
    pub.setsockopt(zmq.HEARTBEAT_IVL, 100)
    pub.setsockopt(zmq.HEARTBEAT_TIMEOUT, 300)
    lost = []
    monitor = pub.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    threading.Thread(target=lambda: [lost.append(recv_monitor_message(monitor)) for _ in iter(int, 1)], daemon=True).start()
    pub.bind("tcp://127.0.0.1:*")
    router = context.socket(zmq.ROUTER)
    router.bind("tcp://127.0.0.1:*")
    kept = deque(maxlen=1000)

    def replay():
        while True:
            client, _, first = router.recv_multipart()
            for seq, payload in list(kept):
                if seq >= int.from_bytes(first, "big"):
                    router.send_multipart((client, b"", seq.to_bytes(8, "big"), payload))
            router.send_multipart((client, b"", END, b""))

    threading.Thread(target=replay, daemon=True).start()
    answer(events=bound(pub), replay=bound(router))
    seq = 0

    def step(send):
        nonlocal seq
        digest = seq.to_bytes(32, "big")
        events = [
            Stored([seq], seq - 1 if seq else None, [seq, 100_000], 2, None, "GPU", None, [("salt",)], 0, "full_attention"),
            Stored([digest], (seq + 1).to_bytes(32, "big"), list(range(300)), 300, None, "CPU", "adapter"),
            Removed([-1 - seq, 2**64 - 1], "GPU"),
        ]
        payload = msgspec.msgpack.encode(Batch(time.time(), events, 0))
        kept.append((seq, payload))
        if send:
            pub.send_multipart((b"kv@peer@model", seq.to_bytes(8, "big"), payload))
        seq += 1

    for command, n in commands():
        if command in ("publish", "lose"):
            for _ in range(int(n)):
                step(command == "publish")
        elif command == "quiet":
            time.sleep(float(n))
        answer(next=seq, lost=len(lost))


def subscribe(form, events, replay):
    Batch, Stored, Removed, Cleared = batch_type(form)
    decode = msgspec.msgpack.Decoder(Batch).decode  # strict: wrong fields raise
    context = zmq.Context()
    sub = context.socket(zmq.SUB)
    sub.connect(events)
    sub.setsockopt(zmq.SUBSCRIBE, b"kv@")
    req = context.socket(zmq.REQ)
    req.setsockopt(zmq.REQ_RELAXED, 1)

    class Reader:
        def __init__(self):
            self.blocks, self.seen, self.tokens = set(), [], 0

        def take(self, seq, payload):
            self.seen.append(int.from_bytes(seq, "big"))
            for event in decode(payload).events:
                if isinstance(event, Stored):
                    assert len(event.token_ids) == event.block_size * len(event.block_hashes)
                    self.tokens += len(event.token_ids)
                    self.blocks.update(event.block_hashes)
                elif isinstance(event, Removed):
                    self.blocks.difference_update(event.block_hashes)
                else:
                    self.blocks.clear()

        def answer(self):
            answer(blocks=[str(b) for b in sorted(self.blocks)], seen=self.seen, tokens=self.tokens)

    live = Reader()
    answer(ready=True)
    for command, n in commands():
        if command == "read":  # until the batch n has come
            while not live.seen or live.seen[-1] < int(n):
                topic, seq, payload = sub.recv_multipart()
                assert topic.startswith(b"kv@"), topic
                live.take(seq, payload)
            live.answer()
        elif command == "replay":  # all from n on
            replayed = Reader()
            dealer = context.socket(zmq.DEALER)
            dealer.connect(replay)
            dealer.send_multipart((b"", int(n).to_bytes(8, "big")))
            while True:
                *_, seq, payload = dealer.recv_multipart()
                if seq == END:
                    break
                replayed.take(seq, payload)
            replayed.answer()
        elif command == "request":  # the first answer that a REQ socket gets
            req.connect(replay)
            req.send(int(n).to_bytes(8, "big"))
            *_, seq, _ = req.recv_multipart()
            answer(first=int.from_bytes(seq, "big", signed=True))


if __name__ == "__main__":
    {"pub": publish, "sub": subscribe}[sys.argv[1]](*sys.argv[2:])
