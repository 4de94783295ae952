package enginetest

import "testing"

func TestToy(t *testing.T) { Run(t, toy{}) }
