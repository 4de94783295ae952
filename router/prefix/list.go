package prefix

// list is a doubly linked list of holds, the last used first. Each hold is in
// two: its endpoint's, and that of all.
type list struct{ newest, oldest int32 }

type link2 struct{ newer, older int32 }

// Which link of a hold a list uses.
const (
	byEndpoint = 0
	byAll      = 1
)

func (l *list) pushNewest(t *tree, k int, j int32) {
	h := t.holds.at(j)
	h.links[k] = link2{older: l.newest}
	if l.newest != 0 {
		t.holds.at(l.newest).links[k].newer = j
	} else {
		l.oldest = j
	}
	l.newest = j
}

// bump makes j, which is in the list, the newest.
func (l *list) bump(t *tree, k int, j int32) {
	if l.newest == j {
		return
	}
	x := &t.holds.at(j).links[k]
	t.holds.at(x.newer).links[k].older = x.older
	if x.older != 0 {
		t.holds.at(x.older).links[k].newer = x.newer
	} else {
		l.oldest = x.newer
	}
	t.holds.at(l.newest).links[k].newer = j
	*x = link2{older: l.newest}
	l.newest = j
}

// insertBehind puts j next to newer, on its older side.
func (l *list) insertBehind(t *tree, k int, j, newer int32) {
	n := &t.holds.at(newer).links[k]
	t.holds.at(j).links[k] = link2{newer: newer, older: n.older}
	if n.older != 0 {
		t.holds.at(n.older).links[k].newer = j
	} else {
		l.oldest = j
	}
	n.older = j
}

func (l *list) remove(t *tree, k int, j int32) {
	x := t.holds.at(j).links[k]
	if x.newer != 0 {
		t.holds.at(x.newer).links[k].older = x.older
	} else {
		l.newest = x.older
	}
	if x.older != 0 {
		t.holds.at(x.older).links[k].newer = x.newer
	} else {
		l.oldest = x.newer
	}
}
