package view

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Draft is what a transaction has written so far: its reader, and the keys that its commit would
// announce.
type Draft struct {
	Reader store.Reader
	Keys   []model.Key
}

// DraftOf returns what a transaction has written.
func DraftOf(tx store.Tx) Draft {
	d := Draft{Reader: tx}
	seen := map[model.Key]bool{}
	for _, c := range tx.Changes() {
		res := c.New
		if res == nil {
			res = c.Old
		}
		if key := res.Key(); !seen[key] && tx.Announced(key) {
			seen[key] = true
			d.Keys = append(d.Keys, key)
		}
	}
	return d
}

// Imagined is a scope before and after a transaction that nobody commits.
type Imagined[S State[S]] struct {
	Before, After S
	// Keys have changed in between. If All is set, any key may have.
	Keys []model.Key
	All  bool
	// Err is why a view could not follow the commit, nil if it could. It would show Before
	// until something else is written.
	Err error
}

// Moved reports whether the state may differ.
func (i *Imagined[S]) Moved() bool { return i.All || len(i.Keys) > 0 }

// Imagine returns what a transaction would make of the scope. It is called in the transaction, and
// changes nothing. ok is false if the scope does not show the state on which the transaction is
// based, although it can be read; then a state before it can be read with Read, while nothing is written yet.
func (s *Scope[S]) Imagine(d Draft) (i Imagined[S], ok bool) {
	before := s.State()
	if err := s.Err(); err != nil {
		return s.imagineMended(before, err, d), true
	}
	if before.Revision() != d.Reader.Revision() {
		return i, false
	}
	return s.ImagineFrom(before, d), true
}

// imagineMended returns what a transaction would make of a scope whose rows cannot be read: nothing,
// unless it mends them.
func (s *Scope[S]) imagineMended(before S, failure error, d Draft) Imagined[S] {
	if s.mayMend(failure, d.Keys) {
		if after, err := s.Read(d.Reader); err == nil {
			return Imagined[S]{Before: before, After: after, All: true}
		}
	}
	return Imagined[S]{Before: before, After: before, Err: failure}
}

// mayMend reports whether a failure to read the scope may be over after some rows were written. If it
// names a row, it ends with nothing but that row, or what decides which rows are read: so that not every
// write reads all that the scope has, while nobody else can write.
func (s *Scope[S]) mayMend(failure error, keys []model.Key) bool {
	row := store.UnreadIn(failure)
	return slices.ContainsFunc(keys, func(key model.Key) bool {
		return s.source.mine(key) && (row == nil || key == row.Key()) || s.source.reshapes != nil && s.source.reshapes(key)
	})
}

// ImagineFrom is Imagine for a state on which the transaction is based.
func (s *Scope[S]) ImagineFrom(before S, d Draft) (i Imagined[S]) {
	i.Before, i.After = before, before
	defer func() {
		if v := recover(); v != nil {
			i.Err = fmt.Errorf("the view panicked: %v", v)
		}
	}()
	var after S
	if s.source.reshapes != nil && slices.ContainsFunc(d.Keys, s.source.reshapes) {
		if after, i.Err = s.source.read(d.Reader); i.Err == nil {
			i.After, i.All = after, true
		}
		return i
	}
	var keys []model.Key
	if after, keys, i.Err = before.apply(d.Reader, d.Keys); i.Err == nil {
		i.After, i.Keys = after, keys
	}
	return i
}

// Read reads the whole state that r shows. What the scope itself shows stays as it is.
func (s *Scope[S]) Read(r store.Reader) (state S, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the view panicked: %v", v)
		}
	}()
	return s.source.read(r)
}
