//go:build !unix

package proxy

// quiet cannot look at a socket here: a dead connection is found by the write or
// the read that fails, and replayed.
func quiet(uintptr) bool { return true }

func answered(uintptr) bool { return false }

// readReady reads in plain calls where a socket has no readiness to wait for.
func readReady(c *conn) error {
	if c.first != nil {
		b := c.first
		c.first = nil
		_, c.werr = c.nc.Write(b)
	}
	for {
		n, err := c.nc.Read(c.sink.room())
		if n > 0 && (!c.sink.took(n) || c.tooFar()) {
			return nil
		}
		if err != nil {
			if isTimeout(err) {
				return err
			}
			c.err = err
			return nil
		}
	}
}

// onReady is never called here.
func (c *conn) onReady(uintptr) bool { return true }
