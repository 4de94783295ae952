package placement

// assign gives each row a column of its own so that the sum of the costs is
// least: seats[row] is its column. A nil cost is no way. short is for how many
// rows at least there is no column; seats mean nothing then.
//
// It is the Hungarian method with potentials, row by row along the cheapest way,
// over costs that are compared one number after the other: these can be added,
// subtracted and ordered as numbers can, which is all that it asks of them. Rows
// cost the square of their number times the columns. Source: Kuhn, The Hungarian
// Method for the Assignment Problem, Naval Research Logistics 2, 1955; in the form
// of Jonker and Volgenant, Computing 38, 1987.
func assign(rows, columns int, cost func(row, column int) *Score) (seats []int, short int) {
	const none = -1
	owner := make([]int, columns) // of each column
	for j := range owner {
		owner[j] = none
	}
	rowPotential, columnPotential := make([]Score, rows), make([]Score, columns)
	for row := range rows {
		// least is the cheapest known way to each column, from the column before.
		least, reached := make([]Score, columns), make([]bool, columns)
		before, done := make([]int, columns), make([]bool, columns)
		from, at := row, none // the row that looks on, and the column by which it was reached
		for from != none {
			next := none
			for j := range columns {
				if done[j] {
					continue
				}
				if c := cost(from, j); c != nil {
					way := *c
					way.subtract(&rowPotential[from])
					way.subtract(&columnPotential[j])
					if !reached[j] || way.Compare(&least[j]) < 0 {
						least[j], reached[j], before[j] = way, true, at
					}
				}
				if reached[j] && (next == none || least[j].Compare(&least[next]) < 0) {
					next = j
				}
			}
			if next == none {
				break
			}
			step := least[next]
			rowPotential[row].add(&step)
			for j := range columns {
				switch {
				case done[j]:
					rowPotential[owner[j]].add(&step)
					columnPotential[j].subtract(&step)
				case reached[j]:
					least[j].subtract(&step)
				}
			}
			done[next] = true
			from, at = owner[next], next
		}
		if from != none {
			short++ // and no later row changes that: the rows that have columns keep having some
			continue
		}
		for at != none {
			prev := before[at]
			if prev == none {
				owner[at] = row
			} else {
				owner[at] = owner[prev]
			}
			at = prev
		}
	}
	seats = make([]int, rows)
	for j, row := range owner {
		if row != none {
			seats[row] = j
		}
	}
	return seats, short
}
