#!/usr/bin/env python3
"""Writes a small language model with random weights, for tests of real engines.

The model knows nothing, but an engine cannot tell: every token of a prompt is
tokenised, prefilled and cached, every token of an answer is decoded, batched
and sampled. The same arguments give the same bytes on every machine.

    model.py gguf tiny.gguf                     # for llama.cpp; 3 MB
    model.py gguf slow.gguf --width 512 --layers 12
    model.py hf   DIRECTORY                     # for vLLM: config, tokenizer, safetensors

- Any text tokenises: a listed word is a token, other printable ASCII a token a
  character, the rest a token a byte.
- What it writes are the listed words, so an answer is text and never half a
  character.
- It never ends an answer by itself: max_tokens does, or the end of the context.
"""
import argparse
import json
import pathlib

import numpy

WORDS = """
about after all and answer are ask at back be because before begin big book both bring but by call can city
close cold come could day did do door down draw each earth eat end every eye far field find fire first fly food
for four from full garden give go good great green grow half hand hard have he head hear help her here high him
his hold home house how idea if in inside is it just keep king know land large last late learn leave left life
light like line little live long look love low made make man many map mean men might mile mind more morning most
mother mountain move much music must name near need never new next night no north not note now number of off
often old on once one only open or other our out over own page paper part people place plain plan plant play
point port press put question quick read ready rest right river road rock room round rule run said same saw say
sea second see seem sentence set she ship short should show side sing small snow so some song soon south spell
stand star start state stay step still stone stop story street study such sun sure table take talk tell than
that the their them then there these they thing think this those thought three through time to together too top
town travel tree true try turn two under until up us use very voice wait walk want warm was watch water way we
well went were west what when where which while white who why will wind with wood word work world would write
year you young
""".split()

# A word may be reached only through its beginnings, since the tokenizer joins
# two tokens at a time: "▁t", "▁th", "▁the".
SPACE = "\u2581"

# The chat template writes each message on a line of its own.
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)

UNKNOWN, BEGIN, END = 0, 1, 2
NORMAL, UNK, CONTROL, BYTE = 1, 2, 3, 6  # token types of GGUF


def vocabulary():
    """Returns texts, scores and types of all tokens, and which may be written."""
    texts = ["<unk>", "<s>", "</s>"]
    types = [UNK, CONTROL, CONTROL]
    for byte in range(256):
        texts.append(f"<0x{byte:02X}>")
        types.append(BYTE)
    pieces = [SPACE] + [chr(c) for c in range(33, 127)]
    for word in WORDS:
        spelled = SPACE + word
        pieces += [spelled[:n] for n in range(2, len(spelled) + 1)]
    pieces = list(dict.fromkeys(pieces))
    texts += pieces
    types += [NORMAL] * len(pieces)
    # The pair with the higher score is joined first: earlier pieces before
    # later ones, so a word's beginning before the word.
    scores = [0.0] * (len(texts) - len(pieces)) + [-float(i) for i in range(len(pieces))]
    written = numpy.array([t[:1] == SPACE and t[1:] in set(WORDS) for t in texts])
    return texts, scores, types, written


def weights(args, written):
    """Yields name and values of every tensor, under the names of GGUF.

    Channel 0 of what flows through the layers is the same for every token and
    no layer writes to it. In the output matrix it is thereby a bias for each
    token of the vocabulary, which rules out all that shall not be written.
    """
    rng = numpy.random.default_rng(args.seed)
    width, hidden, heads = args.width, args.hidden, args.heads
    kv_width = width // heads * args.kv_heads

    def matrix(rows, columns, scale=1.0):
        return rng.standard_normal((rows, columns), dtype=numpy.float32) * numpy.float32(scale / columns**0.5)

    embedding = rng.standard_normal((len(written), width), dtype=numpy.float32)
    embedding[:, 0] = 8
    yield "token_embd.weight", embedding
    for i in range(args.layers):
        yield f"blk.{i}.attn_norm.weight", numpy.ones(width, numpy.float32)
        yield f"blk.{i}.attn_q.weight", matrix(width, width)
        yield f"blk.{i}.attn_k.weight", matrix(kv_width, width)
        yield f"blk.{i}.attn_v.weight", matrix(kv_width, width)
        out = matrix(width, width)
        out[0] = 0
        yield f"blk.{i}.attn_output.weight", out
        yield f"blk.{i}.ffn_norm.weight", numpy.ones(width, numpy.float32)
        yield f"blk.{i}.ffn_gate.weight", matrix(hidden, width)
        yield f"blk.{i}.ffn_up.weight", matrix(hidden, width)
        down = matrix(width, hidden)
        down[0] = 0
        yield f"blk.{i}.ffn_down.weight", down
    yield "output_norm.weight", numpy.ones(width, numpy.float32)
    output = matrix(len(written), width, 2.0)
    output[:, 0] = numpy.where(written, 0, -20)
    yield "output.weight", output


def write_gguf(args):
    import gguf

    texts, scores, types, written = vocabulary()
    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name("random words")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.width)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(args.hidden)
    writer.add_head_count(args.heads)
    writer.add_head_count_kv(args.kv_heads)
    writer.add_rope_dimension_count(args.width // args.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(texts))
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(texts)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(TEMPLATE)
    for name, values in weights(args, written):
        writer.add_tensor(name, values if values.ndim == 1 else values.astype(numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_hf(args):
    import safetensors.numpy
    import tokenizers

    texts, scores, _, written = vocabulary()
    args.out.mkdir(parents=True, exist_ok=True)
    # Joining pairs by rank, as GGUF's scores say.
    ids = {text: i for i, text in enumerate(texts)}
    merges = []
    for text in texts:
        for cut in range(1, len(text)):
            if scores[ids[text]] < 0 and text[:cut] in ids and text[cut:] in ids:
                merges.append((text[:cut], text[cut:]))
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=ids, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.Prepend(SPACE), tokenizers.normalizers.Replace(" ", SPACE)]
    )
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace(SPACE, " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
        ]
    )
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BEGIN)]
    )
    tokenizer.add_special_tokens(texts[:3])
    tokenizer.save(str(args.out / "tokenizer.json"))

    def write(name, value):
        (args.out / name).write_text(json.dumps(value, indent=1))

    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
        "model_max_length": args.context, "chat_template": TEMPLATE, "clean_up_tokenization_spaces": False,
    })
    write("generation_config.json", {"bos_token_id": BEGIN, "eos_token_id": END})
    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(texts),
        "hidden_size": args.width, "num_hidden_layers": args.layers, "intermediate_size": args.hidden,
        "num_attention_heads": args.heads, "num_key_value_heads": args.kv_heads,
        "max_position_embeddings": args.context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "bos_token_id": BEGIN, "eos_token_id": END, "torch_dtype": "float32",
    })
    names = {
        "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    }
    tensors = {}
    for name, values in weights(args, written):
        part = name.split(".")
        if part[0] == "blk":
            name = f"model.layers.{part[1]}.{names[part[2]]}.weight"
        else:
            name = {
                "token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight", "output": "lm_head.weight",
            }[part[0]]
        tensors[name] = values
    safetensors.numpy.save_file(tensors, str(args.out / "model.safetensors"), metadata={"format": "pt"})


def main():
    parser = argparse.ArgumentParser(description="Write a small model with random weights.")
    parser.add_argument("format", choices=["gguf", "hf"], help="gguf: a file for llama.cpp; hf: a directory for vLLM")
    parser.add_argument("out", type=pathlib.Path, help="the file or directory to write")
    parser.add_argument("--width", type=int, default=256, help="channels between layers (default 256)")
    parser.add_argument("--layers", type=int, default=4, help="layers (default 4)")
    parser.add_argument("--heads", type=int, default=8, help="attention heads; width/heads must be even (default 8)")
    parser.add_argument("--kv-heads", type=int, default=4, help="heads of keys and values; divides --heads (default 4)")
    parser.add_argument("--hidden", type=int, default=704, help="channels inside a layer's feed-forward part (default 704)")
    parser.add_argument("--context", type=int, default=8192, help="longest context in tokens (default 8192)")
    parser.add_argument("--seed", type=int, default=1, help="of the random weights (default 1)")
    args = parser.parse_args()
    if args.width % args.heads or args.width // args.heads % 2:
        parser.error(f"--width {args.width} is not --heads {args.heads} times an even number")
    if args.heads % args.kv_heads:
        parser.error(f"--heads {args.heads} is no multiple of --kv-heads {args.kv_heads}")
    if args.format == "gguf":
        write_gguf(args)
    else:
        write_hf(args)


if __name__ == "__main__":
    main()
