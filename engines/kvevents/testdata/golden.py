"""Writes golden.txt: batches as Python's msgspec encodes them, which is what
engines use. Needs msgspec; written by its version 0.23.0.   python golden.py > golden.txt

The structures are declared as engines declare them: the array form is that of
vLLM up to v0.23 and of SGLang, the map form that of vLLM from v0.24.
"""

from typing import Any, Optional, Union

import msgspec

Hash = Union[int, bytes]


def declare(array_like):
    struct = dict(omit_defaults=True, gc=False, array_like=array_like)

    class Stored(msgspec.Struct, tag="BlockStored", **struct):
        block_hashes: list[Hash]
        parent_block_hash: Optional[Hash]
        token_ids: list[int]
        block_size: int
        lora_id: Optional[int]
        medium: Optional[str]
        lora_name: Optional[str]
        extra_keys: Optional[list[Any]] = None
        group_idx: Optional[int] = None
        kv_cache_spec_kind: Optional[str] = None
        kv_cache_spec_sliding_window: Optional[int] = None

    class StoredWithLocality(Stored, tag="BlockStored", **struct):
        locality: Optional[str] = None

    class Removed(msgspec.Struct, tag="BlockRemoved", **struct):
        block_hashes: list[Hash]
        medium: Optional[str]
        group_idx: Optional[int] = None

    class Cleared(msgspec.Struct, tag="AllBlocksCleared", **struct):
        pass

    return Stored if array_like else StoredWithLocality, Removed, Cleared


class Batch(msgspec.Struct, omit_defaults=True, gc=False, array_like=True):
    ts: float
    events: list[Any]
    data_parallel_rank: Optional[int] = None


class OldStored(msgspec.Struct, tag="BlockStored", omit_defaults=True, array_like=True):
    """vLLM v0.10.0: five fields, no medium."""

    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int]


class OldRemoved(msgspec.Struct, tag="BlockRemoved", omit_defaults=True, array_like=True):
    block_hashes: list[int]


class PageStored(msgspec.Struct, tag="BlockStored", omit_defaults=True, array_like=True):
    """SGLang: one page, and a medium."""

    block_hashes: list[int]
    parent_block_hash: Optional[int]
    token_ids: list[int]
    block_size: int
    lora_id: Optional[int] = None
    medium: Optional[str] = None


class News(msgspec.Struct, tag="BlockMoved", omit_defaults=True, array_like=True):
    """A type that nobody knows."""

    block_hashes: list[int]
    details: Any


class NewsMap(msgspec.Struct, tag="BlockMoved", omit_defaults=True):
    block_hashes: str
    details: Any


def main():
    out = lambda name, batch: print(name, msgspec.msgpack.encode(batch).hex())
    big, negative = 0xFEDCBA9876543210, -81985529216486896  # the same 64 bits
    digest = bytes(range(24)) + big.to_bytes(8, "big")
    for form, array_like in ("array", True), ("map", False):
        Stored, Removed, Cleared = declare(array_like)
        first = Stored([1, big], None, [0, 127, 128, 151935], 2, None, "GPU", None)
        out(f"{form}-stored", Batch(1767225600.25, [first], 0))
        out(f"{form}-next", Batch(2.0, [Stored([3], big, [300, 70000], 2, None, "GPU", None)], 3))
        out(
            f"{form}-full",
            Batch(
                0.5,
                [
                    Stored(
                        [5, 6],
                        4,
                        [1, 2],
                        1,
                        None,
                        "CPU",
                        "adapter",
                        [("adapter", "salt"), None],
                        1,
                        "full_attention",
                        None,
                        *([] if array_like else ["REMOTE"]),
                    )
                ],
            ),
        )
        out(f"{form}-window", Batch(0.5, [Stored([5], 4, [1], 1, 7, None, None, None, 0, "sliding_window", 4096)]))
        out(f"{form}-bytes", Batch(0.5, [Stored([digest], digest, [1], 1, None, "GPU", None), Removed([digest], "GPU")]))
        out(f"{form}-negative", Batch(0.5, [Removed([negative, -1], "GPU")]))
        out(f"{form}-removed", Batch(0.5, [Removed([1, big], "GPU", 2)]))
        out(f"{form}-cleared", Batch(0.5, [Cleared()], 1))
        out(f"{form}-empty", Batch(0.5, []))
        out(f"{form}-elsewhere", Batch(0.5, [Stored([1], None, [], 16, None, "STORAGE", None)]))
        out(f"{form}-images", Batch(0.5, [Stored([1], None, [7], 1, None, "GPU", None, [(("image", 0),)])]))
    out("v0.10.0", Batch(0.5, [OldStored([1], None, [7, 8], 2, None), OldRemoved([2])]))
    out("sglang", Batch(0.5, [PageStored([negative], 2, [7, 8], 2, None, "CPU_PINNED")], 0))
    out("unknown", Batch(0.5, [News([1], {"a": [1, {"b": None}]}), NewsMap("x", 1.5)], 0))


main()
