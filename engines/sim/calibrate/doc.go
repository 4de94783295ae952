// Package calibrate measures a real engine behind an OpenAI-compatible API and
// returns the configuration with which package sim behaves like it.
//
// [Run] makes a small experiment of a minute or two, bounded by Config.Budget:
//
//	prefill   one request at a time, prompts of growing length  -> fixed cost, rates of prompt tokens and attention
//	decode    1, 2, 4, … requests at once, short and long prompts -> step, per sequence, reading the KV cache
//	          when more are sent than run at once               -> the number of sequences (slots)
//	mixed     a long prompt beside a stream                     -> the size of a prefill chunk
//	repeated  one prompt twice                                  -> whether prefixes are cached
//	check     a staggered burst, not used by the fit            -> how far the fitted model is off
//
// Every prompt is new, so that no prefix cache helps where none is asked for.
// [Fit] is the other half and pure: from the measured [Samples] to a [Model] by
// least squares without negative costs, robust against outliers. What the
// samples cannot tell is said, and is never a number. A model that is off by
// more than Config.ToleranceRatio, where it was fitted or in the check, is
// still returned, and [Report.Err] says that it should not be used.
//
// # Whose tokens
//
// The engine counts prompts in its own tokens, the simulated engine in its own.
// A replayed text must cost the same in both, so everything about prompts is
// expressed in simulated tokens of the probe's text, which is that of package
// workload, and Model.TokenRatio says how many of the engine's tokens one of
// them is. An answer has as many tokens in both, since max_tokens fixes it.
// Text with another ratio (another language, code) is off by the quotient of
// the two ratios; Config.Words makes the probe's prompts from words of yours.
//
// What it needs of the engine: streaming chat or completions,
// stream_options.include_usage, and answers that do not end early, either by
// ignore_eos (vLLM, SGLang, llama.cpp) or by a model that goes on.
package calibrate
