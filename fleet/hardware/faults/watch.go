package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

const (
	// A read of /dev/kmsg gives one record and fails if that has no room.
	recordBytes = 16 << 10
	// No line that says something of a card is longer.
	lineBytes = 16 << 10
)

// Watch reads a kernel log line by line and calls handle with what it says of
// cards, in order. It returns nil at the log's end, and an error that wraps
// ctx's cause when ctx is done, which it notices between two reads: whoever
// gives it a log that blocks closes that, or sets its deadline. Lines that the
// kernel has thrown away before they were read are passed over.
func Watch(ctx context.Context, log io.Reader, handle func(Event)) error {
	buf := make([]byte, lineBytes+recordBytes)
	held := 0 // bytes of a line that is not whole
	skip := false
	for {
		if ctx.Err() != nil {
			return fmt.Errorf("watch the kernel's log: %w", context.Cause(ctx))
		}
		n, err := log.Read(buf[held:])
		held += n
		rest := buf[:held]
		for {
			line, after, whole := bytes.Cut(rest, []byte{'\n'})
			if !whole {
				break
			}
			if !skip {
				handleLine(line, handle)
			}
			skip, rest = false, after
		}
		if len(rest) > lineBytes {
			skip, rest = true, nil
		}
		held = copy(buf, rest)
		switch {
		case errors.Is(err, io.EOF):
			if !skip {
				handleLine(buf[:held], handle)
			}
			return nil
		case errors.Is(err, syscall.EPIPE): // records were overwritten; the next read goes on with the oldest there is
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("watch the kernel's log: %w", context.Cause(ctx))
		case err != nil:
			return fmt.Errorf("watch the kernel's log: %w", err)
		}
	}
}

func handleLine(line []byte, handle func(Event)) {
	if len(line) == 0 || line[0] == ' ' { // a record's further fields
		return
	}
	if e, ok := ParseLine(string(line)); ok {
		handle(e)
	}
}
