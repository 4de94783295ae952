package password

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrHash says that what is kept as a hash is none, or one that costs more than a
// sign-in may.
var ErrHash = errors.New("password: the hash is none of ours")

// What a hash that is kept may ask for at most. Where somebody wrote more into the
// store, it would be memory and time that each attempt costs, of right and wrong
// passwords alike.
const (
	mostMemoryKiB = 256 << 10
	mostPasses    = 16
	mostLanes     = 8
	mostCost      = 1 << 20 // memory in KiB times passes
	mostSaltBytes = 64
	mostSumBytes  = 64
	mostTextBytes = 256
	leastBytes    = 8 // of salt, and 16 of the sum
)

// Params is what one hash costs.
type Params struct {
	MemoryKiB uint32 // 8 for each lane at least
	Passes    uint32 // over the memory
	Lanes     uint8  // computed side by side
}

// DefaultParams are those that OWASP's Password Storage Cheat Sheet puts first for
// argon2id: 19 MiB, two passes, one lane.
func DefaultParams() Params { return Params{MemoryKiB: 19456, Passes: 2, Lanes: 1} }

// Validate says what is wrong with what a hash is to cost.
func (p Params) Validate() error {
	switch {
	case p.Lanes < 1 || p.Lanes > mostLanes:
		return fmt.Errorf("lanes: %d; want 1 to %d", p.Lanes, mostLanes)
	case p.Passes < 1 || p.Passes > mostPasses:
		return fmt.Errorf("passes: %d; want 1 to %d", p.Passes, mostPasses)
	case p.MemoryKiB < 8*uint32(p.Lanes) || p.MemoryKiB > mostMemoryKiB:
		return fmt.Errorf("memory: %d KiB; want %d to %d", p.MemoryKiB, 8*p.Lanes, mostMemoryKiB)
	case p.MemoryKiB*p.Passes > mostCost:
		return fmt.Errorf("memory times passes: %d; want at most %d", p.MemoryKiB*p.Passes, mostCost)
	}
	return nil
}

// less reports whether some part of p is below that of q.
func (p Params) less(q Params) bool {
	return p.MemoryKiB < q.MemoryKiB || p.Passes < q.Passes
}

// hash is a hash of a password, as it is kept.
type hash struct {
	Params

	salt, sum []byte
}

// String writes the hash in the PHC string format, as the reference implementation
// of Argon2 does.
func (h hash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", h.MemoryKiB, h.Passes, h.Lanes, b64.EncodeToString(h.salt), b64.EncodeToString(h.sum))
}

// parse reads a hash in just the spelling that String writes. The error wraps
// ErrHash and repeats nothing of it.
func parse(text string) (hash, error) {
	bad := func(what string) (hash, error) { return hash{}, fmt.Errorf("%w: %s", ErrHash, what) }
	if len(text) > mostTextBytes {
		return bad("it is too long")
	}
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" {
		return bad("it has not the PHC string format")
	}
	if parts[1] != "argon2id" || parts[2] != "v=19" {
		return bad("it is not argon2id of version 19")
	}
	var h hash
	costs := strings.Split(parts[3], ",")
	if len(costs) != 3 {
		return bad("its parameters are not m, t and p")
	}
	memory, ok1 := number(costs[0], "m=", 32)
	passes, ok2 := number(costs[1], "t=", 32)
	lanes, ok3 := number(costs[2], "p=", 8)
	if !ok1 || !ok2 || !ok3 {
		return bad("its parameters are not m, t and p")
	}
	h.MemoryKiB, h.Passes, h.Lanes = uint32(memory), uint32(passes), uint8(lanes)
	if err := h.Validate(); err != nil {
		return bad(err.Error())
	}
	var err1, err2 error
	h.salt, err1 = base64.RawStdEncoding.Strict().DecodeString(parts[4])
	h.sum, err2 = base64.RawStdEncoding.Strict().DecodeString(parts[5])
	switch {
	case err1 != nil || err2 != nil:
		return bad("its salt or its sum is not base64")
	case len(h.salt) < leastBytes || len(h.salt) > mostSaltBytes || len(h.sum) < 2*leastBytes || len(h.sum) > mostSumBytes:
		return bad("its salt or its sum is too short or too long")
	case h.String() != text:
		return bad("it is spelled in another way") // such as with a line break in base64
	}
	return h, nil
}

// number reads a decimal number without sign or leading zero.
func number(text, prefix string, bits int) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, bits)
	return n, err == nil
}
