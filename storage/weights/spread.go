package weights

import (
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// spread is how a model lies over the cards of one copy of it.
type spread struct {
	// tensor is over how many cards each layer is cut, experts the same for the
	// experts of a mixture, pipeline over how many the layers are dealt out.
	tensor, experts, pipeline uint64
	// heads is over how many cards keys and values of a layer are cut, stages over
	// how many the layers are dealt out for them.
	heads, stages uint64
	// hostEmbedding: the table from tokens to vectors stays in the machine's own
	// memory.
	hostEmbedding bool
}

func spreadOf(f Facts, p engines.Profile) spread {
	tensor, pipeline, data := ways(p.TensorParallel), ways(p.PipelineParallel), ways(p.DataParallel)
	s := spread{tensor: tensor, experts: tensor, pipeline: pipeline, heads: tensor, stages: pipeline}
	switch {
	case p.CPU:
		return spread{tensor: 1, experts: 1, pipeline: 1, heads: 1, stages: 1}
	case p.Engine == engines.LlamaCPP || p.Engine == engines.Ollama:
		// Rows of matrices are cut, the cache never: it lies with its layer.
		s.heads, s.stages, s.hostEmbedding = 1, tensor*pipeline, true
	case p.Engine == engines.VLLM && f.Mixture(), p.Engine == engines.SGLang && p.Mode == "dp-attention":
		// Copies share the experts, cut or dealt out.
		s.experts = tensor * data
	}
	return s
}

// ways returns a parallel size as a number to divide by.
func ways(n int) uint64 { return uint64(min(max(n, 1), 1<<20)) }

// fullest returns the largest sum that a card has whose layers are dealt out over
// stages one after the other, each layer of that size. Where exactly engines cut is
// their own choice, so each place of a stage is looked at. first and last are what
// the first and the last stage have besides.
func fullest(layers []Layer, stages, first, last uint64, size func(Layer) uint64) uint64 {
	upTo := make([]uint64, len(layers)+1) // the sum of the layers before
	for i, l := range layers {
		upTo[i+1] = plus(upTo[i], size(l))
	}
	if upTo[len(layers)] == uncounted {
		return uncounted
	}
	each := int(ceil(uint64(len(layers)), stages))
	worst := uint64(0)
	for begin := 0; begin+each <= len(layers); begin++ {
		stage := upTo[begin+each] - upTo[begin]
		if begin == 0 {
			stage = plus(stage, first)
		}
		if begin+each == len(layers) {
			stage = plus(stage, last)
		}
		worst = max(worst, stage)
	}
	return worst
}

// weightsPart is what the tensors take of the card that has most of them.
func weightsPart(f Facts, p engines.Profile, s spread) Part {
	if len(f.Files) == 0 {
		return unknown("no weights were read")
	}
	loaded, notes := loadedAs(f, p)
	if len(f.Layers) == 0 {
		return known(ceil(loaded(f.TensorBytes, true), s.tensor*s.pipeline), "%s of tensors over %d cards; their names do not say what layer they are of",
			size(f.TensorBytes), s.tensor*s.pipeline)
	}
	first, last := ceil(loaded(f.EmbeddingBytes, false), s.tensor), ceil(loaded(f.OutputBytes, false), s.tensor)
	if f.OutputBytes == 0 && (s.pipeline > 1 || s.hostEmbedding) {
		last = ceil(loaded(f.EmbeddingBytes, false), s.tensor) // a copy of the one table, at the other end
	}
	if s.hostEmbedding {
		first = 0
		notes = append(notes, fmt.Sprintf("the table of tokens, %s, stays in the machine's memory", size(f.EmbeddingBytes)))
	}
	bytes := fullest(f.Layers, s.pipeline, first, last, func(l Layer) uint64 {
		return plus(ceil(loaded(l.Bytes-min(l.ExpertBytes, l.Bytes), true), s.tensor), ceil(loaded(l.ExpertBytes, true), s.experts))
	})
	if s.tensor > 1 {
		notes = append(notes, fmt.Sprintf("each layer cut over %d cards", s.tensor))
	}
	if s.experts != s.tensor && f.Mixture() {
		notes = append(notes, fmt.Sprintf("experts over %d", s.experts))
	}
	if s.pipeline > 1 {
		notes = append(notes, fmt.Sprintf("%d layers dealt out over %d cards", len(f.Layers), s.pipeline))
	}
	how := size(f.TensorBytes) + " of tensors"
	if f.SpareBytes > 0 {
		notes = append(notes, fmt.Sprintf("without %s of layers that guess ahead", size(f.SpareBytes)))
	}
	if len(notes) > 0 {
		how += "; " + strings.Join(notes, "; ")
	}
	return known(plus(bytes, loaded(f.OtherBytes, false)), "%s", how)
}

// loadedAs returns what an engine makes of bytes in the files, of layers or not,
// and what is worth saying of it.
func loadedAs(f Facts, p engines.Profile) (loaded func(bytes uint64, layers bool) uint64, notes []string) {
	den := uint64(1)
	if len(f.Types) > 0 && f.Types[0].Type == "F32" && f.Format == Safetensors && p.DType != "float32" && p.DType != "float" && !p.CPU {
		den = 2
		notes = append(notes, "numbers of 32 bits are loaded as 16")
	}
	layerNum, layerDen := uint64(1), uint64(1)
	if p.Quantization != "" && f.Quantization == "" {
		switch p.Quantization {
		case "fp8":
			layerDen = 2
			notes = append(notes, "layers are made smaller at the start, to 8 bits of 16")
		case "bitsandbytes":
			layerNum, layerDen = 9, 32 // 4 bits, and a number of 32 for every 64
			notes = append(notes, "layers are made smaller at the start, to 4.5 bits of 16")
		default:
			notes = append(notes, "what "+p.Quantization+" makes of them at the start is not known")
		}
	}
	return func(bytes uint64, layers bool) uint64 {
		bytes = ceil(bytes, den)
		if layers {
			bytes = ceil(times(bytes, layerNum), layerDen)
		}
		return bytes
	}, notes
}

// hostBytes is what a rank takes of its machine's memory.
func hostBytes(f Facts, p engines.Profile, h habits, m Memory) engines.Opt[uint64] {
	need, ok := m.NeedBytes.Get()
	switch {
	case p.CPU && ok:
		return engines.Known(times(need, ceil(ways(p.DataParallel), ways(p.Ranks))))
	case !p.CPU && len(f.Files) > 0 && h.family == ggmlFamily:
		return engines.Known(plus(plus(f.EmbeddingBytes, ggmlProcess), ggmlInput(f, p, h.batch)))
	}
	return engines.Opt[uint64]{}
}

// size returns bytes as people read them.
func size(bytes uint64) string {
	switch {
	case bytes >= gib:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/gib)
	case bytes >= mib:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/mib)
	case bytes >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
	}
	return fmt.Sprintf("%d B", bytes)
}
