package prefix

// slab hands out values of T by number, from 1 on, and takes them back. It
// grows by pages, so that growing copies nothing and leaves no unused half.
type slab[T any] struct {
	pages []*[pageSize]T
	free  []int32
	next  int32
}

const pageSize = 512

func (s *slab[T]) at(i int32) *T {
	u := uint32(i) // whose division is a shift
	return &s.pages[u/pageSize][u%pageSize]
}

// take returns the number of a zero value.
func (s *slab[T]) take() int32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.next++
	if int(s.next)/pageSize >= len(s.pages) {
		s.pages = append(s.pages, new([pageSize]T))
	}
	return s.next
}

func (s *slab[T]) give(i int32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
