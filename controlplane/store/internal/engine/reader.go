package engine

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Reader implements [store.Reader] over rows at one moment. Rows that had expired when the
// reader was made are absent, however long it is used.
type Reader struct {
	rows   Rows
	kinds  map[string]*model.Kind
	millis int64
	ended  bool
}

// NewReader returns a reader. kinds limits the kinds that may be read; nil allows all. Rows
// that ended before past are absent.
func NewReader(rows Rows, kinds map[string]*model.Kind, past time.Time) *Reader {
	return &Reader{rows: rows, kinds: kinds, millis: past.UnixMilli()}
}

// End makes every later use fail, in case a caller keeps the reader.
func (r *Reader) End() { r.ended = true }

// Revision implements [store.Reader].
func (r *Reader) Revision() uint64 { return r.rows.Revision() }

// Get implements [store.Reader].
func (r *Reader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if err := r.usable(k); err != nil {
		return nil, err
	}
	res, err := r.rows.Get(model.Key{Kind: k.Name, Scope: scope, Name: name})
	if err != nil {
		return nil, unexpected(err)
	}
	if res == nil || expired(res, r.millis) {
		return nil, absent(k, name)
	}
	return res, nil
}

// Find implements [store.Reader].
func (r *Reader) Find(k *model.Kind, scope, index, value string) (*model.Resource, error) {
	if err := r.usable(k); err != nil {
		return nil, err
	}
	for i := range k.Unique {
		ix := &k.Unique[i]
		if ix.Name != index {
			continue
		}
		res, err := r.rows.Find(k, scope, Entry{Index: index, Value: value, Secret: ix.Secret})
		if err != nil {
			return nil, unexpected(err)
		}
		if res == nil || expired(res, r.millis) {
			return nil, fault.New(fault.NotFound, "no %s has this %s", k.Name, index)
		}
		return res, nil
	}
	return nil, fault.New(fault.Internal, "kind %s has no unique index %q", k.Name, index)
}

// Named implements [store.Reader].
func (r *Reader) Named(k *model.Kind, scope string, names []string) ([]*model.Resource, error) {
	if err := r.usable(k); err != nil {
		return nil, err
	}
	list, err := r.rows.Named(k, scope, names, r.millis)
	if err != nil {
		return nil, unexpected(err)
	}
	return list, nil
}

// List implements [store.Reader].
func (r *Reader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if err := r.listable(k, q); err != nil {
		return nil, err
	}
	list, err := r.rows.List(k, q, r.millis)
	if err != nil {
		return nil, unexpected(err)
	}
	return list, nil
}

// Count implements [store.Reader].
func (r *Reader) Count(k *model.Kind, q store.Query) (int, error) {
	if err := r.listable(k, q); err != nil {
		return 0, err
	}
	n, err := r.rows.Count(k, q, r.millis)
	if err != nil {
		return 0, unexpected(err)
	}
	return n, nil
}

func (r *Reader) listable(k *model.Kind, q store.Query) error {
	if err := r.usable(k); err != nil {
		return err
	}
	if q.Limit < 0 || q.Skip < 0 {
		return fault.New(fault.Internal, "a page of %d entries behind %d was asked for", q.Limit, q.Skip)
	}
	if q.Index == "" {
		return nil
	}
	for i := range k.Refs {
		if k.Refs[i].Name == q.Index {
			return nil
		}
	}
	for i := range k.Lists {
		if k.Lists[i].Name == q.Index {
			return nil
		}
	}
	return fault.New(fault.Internal, "kind %s cannot be listed by %q", k.Name, q.Index)
}

// usable refuses kinds that this store does not keep, and readers that have ended.
func (r *Reader) usable(k *model.Kind) error {
	if err := r.going(); err != nil {
		return err
	}
	switch {
	case k == nil:
		return fault.New(fault.Internal, "a resource without a kind")
	case k.Class == model.Status:
		return fault.New(fault.Internal, "kind %s is of class status, which this store does not keep", k.Name)
	case r.kinds != nil && r.kinds[k.Name] != k:
		return fault.New(fault.Internal, "kind %s is not registered with the store", k.Name)
	}
	return nil
}

// going refuses readers that have ended.
func (r *Reader) going() error {
	if r.ended {
		return fault.New(fault.Internal, "the transaction has ended")
	}
	return nil
}

func absent(k *model.Kind, name string) error {
	return fault.New(fault.NotFound, "%s %q does not exist", k.Name, name)
}

// unexpected marks an error of a backend as internal.
func unexpected(err error) error {
	return fault.Wrap(fault.Internal, err, "the store failed")
}
