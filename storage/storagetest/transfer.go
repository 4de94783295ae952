package storagetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// Fill keeps some of everything in a store, with rows that were forgotten.
func Fill(t testing.TB, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	ok(t, s.CreateKey(ctx, fullKey(), because("make full")))
	for n := range 3 {
		ok(t, s.CreateKey(ctx, simpleKey(n), because(simpleKey(n).ID)))
	}
	k, err := s.Key(ctx, "key-001")
	ok(t, err)
	k.Name = "renamed"
	ok(t, s.UpdateKey(ctx, k, because("rename")))
	total := storage.BudgetPeriod{KeyID: "full", Period: storage.PeriodTotal}
	var batch []storage.Usage
	for n := range 60 {
		u := simpleUsage(n)
		u.At, u.Model, u.Asked = epoch.Add(time.Duration(n)*time.Hour), fmt.Sprintf("m%d", n%3), "näme <&>"
		switch n % 4 {
		case 0:
			u.Charged = &total
		case 1:
			b := dayOf("full")
			b.Start = u.At.Truncate(24 * time.Hour)
			u.Charged, u.TTFT = &b, new(time.Millisecond)
		case 2:
			u.CostNanos, u.Tokens, u.Source, u.Status = nil, storage.Tokens{}, storage.SourceNone, 0
		}
		batch = append(batch, u)
	}
	_, err = s.InsertUsage(ctx, batch)
	ok(t, err)
	for i, id := range []string{"g1", "g2", "g3"} {
		_, err := s.GrantBudget(ctx, ask(id, []storage.BudgetPeriod{total, dayOf("full"), total}[i], 1000, 300, 1))
		ok(t, err)
	}
	ok(t, s.ReturnBudget(ctx, "g1", 100, epoch.Add(time.Minute)))
	_, _, err = s.PruneUsage(ctx, storage.Retention{Rows: epoch.Add(5 * time.Hour), Hours: epoch.Add(3 * time.Hour), Most: 100})
	ok(t, err)
	_, err = s.RenewRouter(ctx, "r1", time.Minute)
	ok(t, err)
	fillFleet(t, s)
	fillModels(t, s)
	fillAccounts(t, s)
	fillProviders(t, s)
}

// Export is what s.Export writes.
func Export(t testing.TB, s storage.Store) []byte {
	t.Helper()
	tr, is := s.(storage.Transferer)
	if !is {
		t.Skip("the store is no Transferer")
	}
	var b bytes.Buffer
	ok(t, tr.Export(t.Context(), &b))
	return b.Bytes()
}

func testTransfer(t *testing.T, open Open, fresh func(t *testing.T) Open) {
	s := open(t)
	Fill(t, s)
	text := Export(t, s)
	other := fresh(t)(t)
	defer other.Close()
	ok(t, other.(storage.Transferer).Import(t.Context(), bytes.NewReader(text)))
	equal(t, "exported again", strings.Split(string(Export(t, other)), "\n"), strings.Split(string(text), "\n"))
	sound(t, other)

	// It goes on where it was: a slice is given back once, a row kept once.
	for _, s := range []storage.Store{s, other} {
		ok(t, s.ReturnBudget(t.Context(), "g1", 300, epoch.Add(time.Hour)))
		ok(t, s.ReturnBudget(t.Context(), "g3", 10, epoch.Add(time.Hour)))
		n, err := s.InsertUsage(t.Context(), usageOf(t, s, storage.UsageQuery{}))
		ok(t, err)
		equal(t, "rows inserted again", n, 0)
	}
	for _, s := range []storage.Store{s, other} {
		term, err := s.Term(t.Context())
		ok(t, err)
		ok(t, s.PutNodes(t.Context(), term.Fence(), []storage.Node{simpleNode(9)}))
	}
	equal(t, "exported after the same", string(Export(t, other)), string(Export(t, s)))
	// Who signed in here has not signed in there, and what was tried is forgotten.
	_, _, err := s.Session(t.Context(), simpleSession("", 1).Hash, epoch, epoch)
	ok(t, err)
	_, _, err = other.Session(t.Context(), simpleSession("", 1).Hash, epoch, epoch)
	wantErr(t, "a session of the other store", err, storage.ErrNotFound)
	wantErr(t, "a link that was opened there", other.RedeemKeyLink(t.Context(), keyLink(2).Hash, epoch, simpleKey(60), because("open 2")), storage.ErrConflict)
	k, err := other.Key(t.Context(), accountKey("acct-001", 1).ID)
	ok(t, err)
	equal(t, "whose key it is", k.Account, "acct-001")
	wantErr(t, "into one that keeps something", other.(storage.Transferer).Import(t.Context(), bytes.NewReader(text)), storage.ErrExists)
}

// without is an export less the line that begins so, with the right end.
func without(t *testing.T, text, begin string) string {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:len(lines)-1]
	if begin != "" {
		all := len(lines)
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, begin) })
		equal(t, "lines less", all-len(lines), 1)
	}
	text = strings.Join(lines, "")
	return fmt.Sprintf("%s{\"end\":true,\"lines\":%d,\"sha256\":\"%x\"}\n", text, len(lines)-1, sha256.Sum256([]byte(text)))
}

// What is not a whole export changes nothing.
func testTransferRefused(t *testing.T, open Open, fresh func(t *testing.T) Open) {
	s := open(t)
	Fill(t, s)
	text := string(Export(t, s))
	target := fresh(t)(t)
	defer target.Close()
	empty := Export(t, target)
	lines := strings.SplitAfter(text, "\n")
	for name, tt := range map[string]struct {
		text string
		want error
	}{
		"nothing":            {"", storage.ErrInvalid},
		"something else":     {"PRAGMA foreign_keys=OFF;\nBEGIN;\n", storage.ErrInvalid},
		"other JSON":         {"{\"a\":1}\n", storage.ErrInvalid},
		"a newer form":       {strings.Replace(text, `"version":6`, `"version":7`, 1), storage.ErrSchema},
		"cut after a line":   {strings.Join(lines[:len(lines)/2], ""), storage.ErrInvalid},
		"cut in a line":      {text[:len(text)/2], storage.ErrInvalid},
		"cut before its end": {strings.Join(lines[:len(lines)-2], ""), storage.ErrInvalid},
		"cut in its end":     {text[:len(text)-10], storage.ErrInvalid},
		"a line less":        {strings.Join(append(append([]string{}, lines[:3]...), lines[4:]...), ""), storage.ErrInvalid},
		"a figure changed":   {strings.Replace(text, `"granted":`, `"granted":1`, 1), storage.ErrInvalid},
		"a field more":       {strings.Replace(text, `{"key":{`, `{"key":{"x":1,`, 1), storage.ErrInvalid},
		"a record twice":     {strings.Replace(text, lines[3], lines[3]+lines[3], 1), storage.ErrInvalid},
		"something after it": {text + "more\n", storage.ErrInvalid},
		"a key of nobody":    {without(t, text, `{"account":{"id":"acct-001"`), storage.ErrInvalid},
		"a link for nobody":  {without(t, strings.ReplaceAll(text, `"account":"acct-001","created_at"`, `"account":"acct-none","created_at"`), ""), storage.ErrInvalid},
	} {
		wantErr(t, name, target.(storage.Transferer).Import(t.Context(), strings.NewReader(tt.text)), tt.want)
		equal(t, "kept after "+name, string(Export(t, target)), string(empty))
	}
	ok(t, target.(storage.Transferer).Import(t.Context(), strings.NewReader(text)))
	sound(t, target)
}
