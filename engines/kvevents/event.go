package kvevents

import "errors"

// Kind is what an event tells.
type Kind uint8

// The kinds of events.
const (
	KindStored  Kind = iota + 1 // BlockStored: blocks can be found by their hashes
	KindRemoved                 // BlockRemoved: they can no more
	KindCleared                 // AllBlocksCleared: nothing can
)

// String returns "stored", "removed" or "cleared".
func (k Kind) String() string {
	switch k {
	case KindStored:
		return "stored"
	case KindRemoved:
		return "removed"
	case KindCleared:
		return "cleared"
	}
	return "unset"
}

// GPU is the medium of blocks in device memory, and what an absent medium means.
const GPU = "GPU"

// Event is one change of an engine's cache.
type Event struct {
	Kind Kind
	// Hashes name the blocks, in the order of the sequence: the low 64 bits
	// of the engine's hash, whether it sent an integer of either sign or all
	// bytes of the digest. Of KindStored and KindRemoved.
	Hashes []uint64
	// Parent is the hash of the block before the first; HasParent is false if
	// the first begins a sequence. Of KindStored.
	Parent    uint64
	HasParent bool
	// Tokens are the blocks' token ids, BlockSize for each hash; or none, as
	// vLLM tells of blocks that it keeps outside the GPU. Of KindStored.
	Tokens    []uint32
	BlockSize int
	// LoRA is the adapter's name, or its number in decimal from engines that
	// send only that; "" for the base model. Of KindStored.
	LoRA string
	// Extra tells, for each block, what makes it differ from one with the
	// same tokens: nil if nothing does. Empty if the engine does not say
	// (SGLang, vLLM before 2026-02-20). Of KindStored.
	Extra []ExtraKeys
	// Medium is where the blocks are: [GPU], or what the engine calls it (CPU,
	// CPU_PINNED, DISK, STORAGE, EXTERNAL). Of KindStored and KindRemoved.
	Medium string
	// Group is the KV-cache group of a hybrid model; HasGroup is false if the
	// engine does not say. A prefix is present if the group of full attention
	// has it. Of KindStored and KindRemoved.
	Group    int
	HasGroup bool
	// Spec is the kind of that group's attention as the engine names it, ""
	// if it does not say. Of KindStored.
	Spec string
	// Remote says that the blocks are on another host than the engine. Of
	// KindStored and KindRemoved.
	Remote bool
}

// Batch is what an engine told in one message.
type Batch struct {
	// Topic is the message's topic frame; of a batch that was replayed, that of
	// the last message before, "" if there was none.
	Topic string
	// Rank is the subscriber's data-parallel rank, 0 without data parallelism.
	Rank int
	// Sequence numbers the rank's batches since the engine's start, from 0.
	Sequence int64
	// Time is the engine's clock, in seconds since 1970.
	Time float64
	// EngineRank is the rank that the engine itself named, -1 if it did not.
	EngineRank int
	Events     []Event
	// Unknown counts events of types that this package does not know.
	Unknown int
}

// ErrMalformed is wrapped by errors about bytes that are no batch.
var ErrMalformed = errors.New("kvevents: malformed batch")
