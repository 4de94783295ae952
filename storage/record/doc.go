// Package record is the flight recorder's log: a bounded, append-only binary
// log of decisions that never makes the one who decides wait. It knows no
// decision: a record is a type, a time and opaque bytes, which the caller
// encodes. By custom those bytes hold lengths and keyed fingerprints ([Key]),
// never text.
//
//	a decision ──Append──► [Log]  buffer ──Run──► directory ◄──Entries── [Reader]
//	           └─Append──► [Ring] the recent ones, in memory ◄──Entries── a listener
//
// [Log.Append] copies the record into a buffer and returns. [Log.Run] writes
// the buffer to segments in a directory, removes the oldest ones so that the
// directory stays within its bytes and its age, and survives a disk that is full
// or gone. A record that finds the buffer full is dropped and counted; in its
// place the log gets a [Gap] with the exact number, so that a reader
// knows what it does not see. [Ring] takes the same records and keeps the newest
// in memory.
//
// # What a crash costs
//
// A process that dies loses what it had not written: at most what was appended
// during Config.FlushInterval, or Config.BufferBytes if the disk did not keep up.
// A machine that dies loses besides what its system had not yet brought to the
// disk: at most Config.SyncInterval's worth. A segment is also synced when it is
// complete. What is left is a segment that was not completed, perhaps with a torn
// tail: the reader gives every entry before the tear, then says that something is
// missing ([ErrTorn]), and goes on with the next segment. A log never changes a
// segment of an earlier run; it starts a new one.
//
// # The format
//
// A directory holds segments, named by a sequence number of 20 digits that only
// grows, with the ending .rec, and the file "lock", by which one Log at a time
// writes. Numbers are little-endian. A segment is a header and entries:
//
//	header  0 magic "LLMGWREC"       entry  0 CRC-32C of the rest of the entry, uint32
//	        8 format version, uint16        4 length of the payload, uint32
//	       10 length, uint16                8 time, ns since 1970, int64
//	       12 CRC-32C of the rest, uint32  16 type, uint16
//	       16 the writer, 64 bytes         18 zero, uint16
//	       80 sequence number, uint64      20 payload
//	       88 key ID, uint64
//	       96 made at, ns since 1970, int64
//	      104 run, uint64
//
// The first 80 bytes stay as they are in every version, so that a reader can
// refuse a segment of another version by naming who wrote it ([VersionError]).
// The last entry of a complete segment is a seal with the number of its entries
// and their first and last time, so that a reader skips whole segments.
//
// # Time
//
// An entry's time is what the caller says, virtual time included, and entries
// stand in the order in which they were appended, whatever their times. Ages, on
// the other hand, are by the system's clock: a clock that jumps ahead by more than
// Config.MaxAge empties the log.
package record
