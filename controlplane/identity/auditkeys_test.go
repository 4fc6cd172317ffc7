package identity

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

func openAuditKeys(t *testing.T, s store.Store) *AuditKeys {
	t.Helper()
	keys, err := OpenAuditKeys(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// described lists keys: those that sign with a *, withdrawn ones in brackets.
func (a *AuditKeys) described() string {
	var list []string
	for _, k := range a.Keys() {
		switch {
		case k.Withdrawn:
			list = append(list, "("+k.Serial+")")
		case k.Signs:
			list = append(list, k.Serial+"*")
		default:
			list = append(list, k.Serial)
		}
	}
	return strings.Join(list, " ")
}

// TestAuditKeys: the newest key signs, all are published until they are deleted or withdrawn, and the key that
// signs cannot be deleted, so that the last one stays. A serial is never given to another key. The next process
// finds the same keys.
func TestAuditKeys(t *testing.T) {
	rotate := func(t *testing.T, a *AuditKeys, w Writer) error { _, err := a.Rotate(t.Context(), w); return err }
	withdraw := func(t *testing.T, a *AuditKeys, w Writer) error { _, err := a.Withdraw(t.Context(), w); return err }
	remove := func(serial string) func(*testing.T, *AuditKeys, Writer) error {
		return func(t *testing.T, a *AuditKeys, w Writer) error { return a.Delete(t.Context(), w, serial) }
	}
	type step struct {
		do   func(*testing.T, *AuditKeys, Writer) error
		code fault.Code
		want string
	}
	for name, steps := range map[string][]step{
		"rotated":              {{rotate, "", "1 2*"}, {rotate, "", "1 2 3*"}},
		"deleted":              {{rotate, "", "1 2*"}, {remove("1"), "", "2*"}, {remove("1"), fault.NotFound, "2*"}, {rotate, "", "2 3*"}},
		"one in the middle":    {{rotate, "", "1 2*"}, {rotate, "", "1 2 3*"}, {remove("2"), "", "1 3*"}},
		"the last one":         {{remove("1"), fault.Conflict, "1*"}},
		"the one that signs":   {{rotate, "", "1 2*"}, {remove("2"), fault.Conflict, "1 2*"}},
		"one that is not":      {{remove("2"), fault.NotFound, "1*"}, {remove(""), fault.NotFound, "1*"}, {remove("01"), fault.NotFound, "1*"}},
		"compromised":          {{withdraw, "", "(1) 2*"}, {remove("1"), fault.NotFound, "(1) 2*"}, {rotate, "", "(1) 2 3*"}, {withdraw, "", "(1) (2) (3) 4*"}},
		"a key of before gone": {{rotate, "", "1 2*"}, {remove("1"), "", "2*"}, {withdraw, "", "(2) 3*"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := identitytest.Memory(t)
			keys, gate := openAuditKeys(t, s), keyGate(s)
			for i, step := range steps {
				err := step.do(t, keys, gate)
				if step.code == "" && err != nil || step.code != "" && !fault.Is(err, step.code) {
					t.Errorf("step %d: %v", i, err)
				}
				next := openAuditKeys(t, s)
				if keys.described() != step.want || next.described() != step.want {
					t.Errorf("step %d: the keys are %s, and %s for the next process; want %s", i, keys.described(), next.described(), step.want)
				}
				published := keys.Private()
				if !slices.EqualFunc(published, next.Private(), func(a, b ed25519.PrivateKey) bool { return a.Equal(b) }) {
					t.Errorf("step %d: the next process has other keys", i)
				}
				if counting := strings.Count(step.want, " ") + 1 - strings.Count(step.want, "("); len(published) != counting {
					t.Errorf("step %d: %d keys are published", i, len(published))
				}
				for _, k := range keys.Keys() {
					if listed := k.Public.Equal(published[0].Public()); listed != k.Signs {
						t.Errorf("step %d: key %s signs: %v, and is the first one that is published: %v", i, k.Serial, k.Signs, listed)
					}
				}
			}
		})
	}
}

// TestAuditKeyOfBefore: a store with the one key of before goes on with it, because receivers are pinned to it.
// Withdrawn, it leaves only its public half.
func TestAuditKeyOfBefore(t *testing.T) {
	s := identitytest.Memory(t)
	old := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	text, err := pemtext.Key(old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ensure(t.Context(), s, "audit-log-signing-key", always, func() (*KeyPair, error) { return &KeyPair{Key: text}, nil }); err != nil {
		t.Fatal(err)
	}
	keys := openAuditKeys(t, s)
	if got := keys.Private(); len(got) != 1 || !got[0].Equal(old) || keys.described() != "1*" {
		t.Errorf("%d keys: %s", len(got), keys.described())
	}
	if out, err := keys.Withdraw(t.Context(), keyGate(s)); err != nil || out.Serial != "2" || !slices.Equal(out.Withdrawn, []string{"1"}) {
		t.Errorf("%+v, %v", out, err)
	}
	if left := keys.Keys()[0]; !left.Withdrawn || !left.Public.Equal(old.Public()) {
		t.Errorf("%+v is left", left)
	}
	err = s.View(t.Context(), func(r store.Reader) error {
		all, err := r.List(Keys, store.Query{})
		for _, res := range all {
			if bytes.Contains(res.Spec.(*KeyPair).Key, pemtext.First(text).Bytes) || bytes.Contains(res.Spec.(*KeyPair).Key, bytes.TrimSpace(text)) {
				t.Errorf("%s is the private half", res.Name)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// late is a writer that returns from its first commit when the next change is done, or has waited for this one.
type late struct {
	Writer
	first           sync.Once
	committed, done chan struct{}
}

func (l *late) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (c store.Commit, err error) {
	c, err = l.Writer.Write(ctx, class, fn)
	l.first.Do(func() {
		close(l.committed)
		select {
		case <-l.done:
		case <-time.After(50 * time.Millisecond): // it waits
		}
	})
	return c, err
}

// TestAuditKeysRace: of two rotations at the same time, each makes a key, and the newest signs, whichever is told
// of its commit first.
func TestAuditKeysRace(t *testing.T) {
	s := identitytest.Memory(t)
	keys, w := openAuditKeys(t, s), &late{Writer: keyGate(s), committed: make(chan struct{}), done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := keys.Rotate(t.Context(), w); err != nil {
			t.Error(err)
		}
	})
	<-w.committed
	if _, err := keys.Rotate(t.Context(), keyGate(s)); err != nil {
		t.Error(err)
	}
	close(w.done)
	wg.Wait()
	if got := keys.described(); got != "1 2 3*" {
		t.Error(got)
	}
}

// full is a writer whose store takes nothing in the end.
type full struct{ Writer }

var errFull = errors.New("the disk is full")

func (f full) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return f.Writer.Write(ctx, class, func(tx store.Tx) error { return errors.Join(fn(tx), errFull) })
}

// TestUnusableAuditKeys: nothing is signed if a stored key is none, and a change that is not stored changes nothing.
func TestUnusableAuditKeys(t *testing.T) {
	s := identitytest.Memory(t)
	keys := openAuditKeys(t, s)
	_, rotated := keys.Rotate(t.Context(), full{keyGate(s)})
	_, withdrawn := keys.Withdraw(t.Context(), full{keyGate(s)})
	if !errors.Is(rotated, errFull) || !errors.Is(withdrawn, errFull) || keys.described() != "1*" {
		t.Errorf("%v, %v: %s", rotated, withdrawn, keys.described())
	}
	for name, text := range map[string]string{"nothing": "", "no PEM": "x", "no key": string(pemtext.Encode(pemtext.TypeKey, []byte{0}))} {
		for _, row := range []string{keyAudit, keyAuditSerial + "2", keyAuditWithdrawn + "2"} {
			s := identitytest.Memory(t)
			if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				_, err := tx.Create(&model.Resource{Kind: Keys, Name: row, Spec: &KeyPair{Key: []byte(text)}})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenAuditKeys(t.Context(), s); err == nil || !strings.Contains(err.Error(), "that signs the audit log") {
				t.Errorf("%s at %s: %v", name, row, err)
			}
		}
	}
}
