package record_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/storage/record"
)

// typeRoute is a type of the program's own.
const typeRoute record.Type = 1

// A program records its decisions, and reads them again later.
func Example() {
	dir, err := os.MkdirTemp("", "record")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// The key stands elsewhere than the log.
	key, err := record.KeyFile(filepath.Join(dir, "record.key"))
	if err != nil {
		log.Fatal(err)
	}
	cfg := record.DefaultConfig()
	cfg.Dir = filepath.Join(dir, "log")
	rec, err := record.New(cfg, record.Deps{Key: key, Writer: "example v1.0.0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- rec.Run(ctx) }()

	// Of the prompt there is a length and a fingerprint.
	prompt := "Why is the sky blue?"
	decision := binary.LittleEndian.AppendUint32(nil, uint32(len(prompt)))
	decision = binary.LittleEndian.AppendUint64(decision, key.Fingerprint(prompt))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	_ = rec.Append(typeRoute, now, decision)

	cancel()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	r, err := record.Open(cfg.Dir)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for e, err := range r.Entries(now.Add(-time.Minute), now.Add(time.Minute)) {
		if err != nil {
			fmt.Println("damaged:", err) // what is left follows
			continue
		}
		if gap, ok := record.ParseGap(e); ok {
			fmt.Println(gap.Dropped, "records are missing here")
			continue
		}
		same := binary.LittleEndian.Uint64(e.Payload[4:]) == key.Fingerprint(prompt)
		fmt.Println(e.Time.Format(time.TimeOnly), "type", e.Type, "bytes", binary.LittleEndian.Uint32(e.Payload), "by", e.Segment.Writer, "same prompt", same)
	}
	// Output: 12:00:00 type 1 bytes 20 by example v1.0.0 same prompt true
}

// A ring keeps the recent decisions for whoever asks.
func ExampleRing() {
	ring, err := record.NewRing(record.DefaultRingConfig(), record.NewKey())
	if err != nil {
		log.Fatal(err)
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 3 {
		_ = ring.Append(typeRoute, start.Add(time.Duration(i)*time.Second), []byte{byte(i)})
	}
	for e := range ring.Entries(start.Add(time.Second), time.Time{}) {
		fmt.Println(e.Time.Format(time.TimeOnly), "decision", e.Payload[0])
	}
	// Output:
	// 12:00:01 decision 1
	// 12:00:02 decision 2
}
