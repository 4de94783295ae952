package calibrate

import (
	"math"
	"slices"
)

// solution is a least-squares fit without negative coefficients.
type solution struct {
	x      []float64
	stdErr []float64 // of each; NaN where it could not be told
	misfit []float64 // relative residual of each row, fitted ÷ measured − 1
}

// leastSquares finds x ≥ 0 that makes rows·x nearest to y, by relative error,
// rows beyond about two usual deviations counting less (Huber). y must be
// positive; start holds a first guess of what y ought to be. Every set of zero
// coefficients is tried, so the answer is the best one and not merely a good
// one; with n unknowns that is 2ⁿ small systems.
//
// A difference is relative to the greater of fitted and measured, so that a
// measurement of nearly nothing is off by 1 at most, as one that is far too
// great is. Relative to the measurement alone it would be off by thousands, and
// outvote all others.
func leastSquares(rows [][]float64, y, start []float64) solution {
	weight := make([]float64, len(rows))
	for i := range weight {
		weight[i] = 1
	}
	expected := start
	var s solution
	for range 24 {
		s = bestSubset(rows, y, expected, weight)
		expected = make([]float64, len(rows))
		off := make([]float64, len(rows))
		s.misfit = make([]float64, len(rows))
		for i, r := range rows {
			expected[i] = dot(r, s.x)
			off[i] = (expected[i] - y[i]) / max(expected[i], y[i])
			s.misfit[i] = expected[i]/y[i] - 1
		}
		reweigh(weight, off)
	}
	return s
}

// reweigh lowers the weight of rows far off. One per cent is what even a quiet
// machine is off by.
func reweigh(weight, misfit []float64) {
	off := make([]float64, len(misfit))
	for i, m := range misfit {
		off[i] = math.Abs(m)
	}
	usual := max(1.4826*median(off), 0.01)
	for i := range weight {
		weight[i] = min(1, 1.345*usual/max(off[i], 1e-12))
	}
}

// bestSubset tries every set of coefficients that may differ from zero. Each
// row counts relative to the greater of measured and expected.
func bestSubset(rows [][]float64, y, expected, weight []float64) solution {
	n := len(rows[0])
	scaled, target := make([][]float64, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		scale := max(y[i], expected[i])
		target[i] = y[i] / scale
		scaled[i] = make([]float64, n)
		for j := range r {
			scaled[i][j] = r[j] / scale
		}
	}
	best, bestCost := solution{x: make([]float64, n), stdErr: nans(n)}, math.Inf(1)
	for set := range 1 << n {
		var columns []int
		for j := range n {
			if set>>j&1 == 1 {
				columns = append(columns, j)
			}
		}
		s, ok := solve(scaled, target, weight, columns)
		if !ok {
			continue
		}
		cost := 0.0
		for i, r := range scaled {
			d := dot(r, s.x) - target[i]
			cost += weight[i] * d * d
		}
		if cost < bestCost*(1-1e-9) {
			best, bestCost = s, cost
			// Spread of the residuals, and with it of the coefficients.
			free := float64(len(rows) - len(columns))
			for j := range s.stdErr {
				s.stdErr[j] = math.Sqrt(s.stdErr[j] * cost / max(free, 1))
			}
		}
	}
	return best
}

// solve is the weighted least-squares fit of some columns, the others being 0;
// false if it is singular or has a negative coefficient. stdErr holds the
// diagonal of the inverse.
func solve(rows [][]float64, y, weight []float64, columns []int) (solution, bool) {
	n, k := len(rows[0]), len(columns)
	s := solution{x: make([]float64, n), stdErr: nans(n)}
	// Columns are brought to length 1: their units differ by nine decades.
	length := make([]float64, k)
	for c, j := range columns {
		for i, r := range rows {
			length[c] += weight[i] * r[j] * r[j]
		}
		if length[c] = math.Sqrt(length[c]); length[c] == 0 {
			return s, false
		}
	}
	// [XᵀX | Xᵀy | I], then Gauss-Jordan.
	m := make([][]float64, k)
	for a, ja := range columns {
		m[a] = make([]float64, 2*k+1)
		for i, r := range rows {
			va := weight[i] * r[ja] / length[a]
			for b, jb := range columns {
				m[a][b] += va * r[jb] / length[b]
			}
			m[a][k] += va * y[i]
		}
		m[a][k+1+a] = 1
	}
	for c := range k {
		p := c
		for r := c + 1; r < k; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[p][c]) {
				p = r
			}
		}
		if math.Abs(m[p][c]) < 1e-10 {
			return s, false
		}
		m[c], m[p] = m[p], m[c]
		pivot := m[c][c]
		for j := range m[c] {
			m[c][j] /= pivot
		}
		for r := range k {
			if f := m[r][c]; r != c && f != 0 {
				for j := range m[r] {
					m[r][j] -= f * m[c][j]
				}
			}
		}
	}
	for c, j := range columns {
		if m[c][k] < 0 {
			return s, false
		}
		s.x[j] = m[c][k] / length[c]
		s.stdErr[j] = m[c][k+1+c] / (length[c] * length[c])
	}
	return s, true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func nans(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// median of values, NaN of none. It keeps values as they are.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
