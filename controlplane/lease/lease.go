// Package lease lets one of several processes on one store do what must be done by one at a time.
//
// A lease is a row with a holder and an epoch, which grows whenever somebody takes the lease. Three things
// together keep two from doing the same:
//
//   - Who holds a lease counts its span by the monotonic clock, from before the write that began or renewed
//     it, and stops a little before the end. No clocks are compared, and setting a clock changes nothing.
//   - Who wants it waits until the row has not changed for the whole span by its own monotonic clock.
//   - Each write of the holder checks the epoch in its transaction ([Lease.Check]): should a process have
//     stood still and gone on after its time, nothing that it writes counts any more.
//
// A row that cannot be read, as after a damage of the disk, is lost to its holder. Who wants the lease waits for
// the whole span, as if the row had one, and then makes it anew with an epoch that no holder before had.
package lease

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// DefaultSpan is how long a lease lasts that is not renewed.
const DefaultSpan = 15 * time.Second

// A holder renews after a third of the span and stops a fifth of it before its end. Who waits looks every
// tenth.
const (
	renewals = 3
	margins  = 5
	looks    = 10
)

// ErrLost is the error of a holder whose lease is another's, or over.
var ErrLost = errors.New("the lease is lost")

// Row is what is stored of a lease. It has the name of what is leased.
type Row struct {
	// Holder is empty if the lease was given back.
	Holder string `json:"holder,omitempty"`
	Epoch  uint64 `json:"epoch"`
	// Turn counts renewals, so that the row changes with each of them.
	Turn uint64 `json:"turn,omitempty"`
}

// Leases is the kind of leases, which no API shows.
var Leases = model.Describe(Row{}, model.Kind{
	Name: "lease", Path: "leases", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Busy: true,
})

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{Leases} }

// Writer writes. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Options are what a holder works with.
type Options struct {
	Writer Writer
	// Holder tells this process from all others, also from those before it.
	Holder string
	// Span is how long a lease lasts; [DefaultSpan] if it is 0.
	Span time.Duration
	// Sole says that the store is of this process alone, so that all other holders have ended: nobody
	// waits for them.
	Sole bool
}

// Holder takes leases for a process. It is safe for concurrent use, but at any time only one goroutine
// may take or hold the lease of a name.
type Holder struct {
	Options

	mu   sync.Mutex
	seen map[string]sighting
}

// found is what is known of a lease. A row that is not there has version 0.
type found struct {
	row     Row
	version uint64
	// damaged says that the row is there and cannot be read.
	damaged bool
}

// sighting is a row of another holder, and since when it is known to be like that.
type sighting struct {
	found
	since time.Time
}

// New returns a holder.
func New(o Options) *Holder {
	if o.Span == 0 {
		o.Span = DefaultSpan
	}
	return &Holder{Options: o, seen: map[string]sighting{}}
}

// Take waits for a lease and takes it. The lease is renewed until it is given back or lost, or ctx ends.
func (h *Holder) Take(ctx context.Context, name string) (*Lease, error) {
	for {
		l, wait, err := h.try(ctx, name)
		if l != nil || err != nil {
			return l, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		case <-timer.C:
		}
	}
}

// try takes a lease if it is free, or says when to look again.
func (h *Holder) try(ctx context.Context, name string) (l *Lease, wait time.Duration, err error) {
	began := time.Now()
	var epoch uint64
	_, err = h.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		epoch = 0
		f, err := find(tx, name)
		if err != nil {
			return err
		}
		if wait = h.waits(name, f); wait > 0 {
			return nil
		}
		next := Row{Holder: h.Holder, Epoch: f.row.Epoch + 1}
		if f.damaged {
			next.Epoch = unknown()
		}
		epoch = next.Epoch
		return f.replace(tx, name, next)
	})
	if err != nil || epoch == 0 {
		return nil, wait, err
	}
	h.forget(name)
	l = &Lease{holder: h, name: name, epoch: epoch, ended: make(chan struct{})}
	var end, stop context.CancelCauseFunc
	l.lasting, end = context.WithCancelCause(context.WithoutCancel(ctx))
	l.ctx, stop = context.WithCancelCause(ctx)
	l.cancel = func(cause error) { end(cause); stop(cause) }
	go l.keep(began)
	return l, 0, nil
}

// waits is how long to wait before a row is looked at again; 0 if the lease can be taken.
func (h *Holder) waits(name string, f found) time.Duration {
	if h.Sole || !f.damaged && (f.row.Holder == "" || f.row.Holder == h.Holder) {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	s, known := h.seen[name]
	if !known || s.found != f {
		s = sighting{f, now}
		h.seen[name] = s
	}
	return min(max(h.Span-now.Sub(s.since), 0), h.Span/looks)
}

func (h *Holder) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, name)
}

// Lease is a lease that is held.
type Lease struct {
	holder *Holder
	name   string
	epoch  uint64
	// ctx and lasting are the time of the lease; ctx also ends with that with which it was taken.
	ctx, lasting context.Context         //nolint:containedctx // see above
	cancel       context.CancelCauseFunc // of both
	ended        chan struct{}
}

// Context ends when the lease is lost, a little before it would be over, and when it is given back, or
// when the context ends with which it was taken.
func (l *Lease) Context() context.Context { return l.ctx }

// Lasting is [Lease.Context] for what is to be finished after the context has ended with which the lease was
// taken. From then on nobody renews the lease, so only the rest of its span is left.
func (l *Lease) Lasting() context.Context { return l.lasting }

// Check fails with [ErrLost], in a transaction, unless the lease is still that of l. A lease that is lost ends
// then, so that its holder takes it anew and does not go on writing in vain.
func (l *Lease) Check(tx store.Reader) error {
	_, err := l.own(tx)
	if errors.Is(err, ErrLost) {
		l.cancel(ErrLost)
	}
	return err
}

// own reads the row of the lease. It fails with [ErrLost] unless the row says that the lease is that of l.
// The cause of a row that cannot be read is not passed on: it says nothing of what the holder writes.
func (l *Lease) own(tx store.Reader) (found, error) {
	f, err := find(tx, l.name)
	if err == nil && (f.damaged || f.row.Holder != l.holder.Holder || f.row.Epoch != l.epoch) {
		err = ErrLost
	}
	return f, err
}

// keep renews the lease until it ends.
func (l *Lease) keep(began time.Time) {
	defer close(l.ended)
	span := l.holder.Span
	// It also ends what is left of the lease when nobody renews it any more.
	over := time.AfterFunc(time.Until(began.Add(span-span/margins)), func() { l.cancel(ErrLost) })
	next := time.NewTimer(span / renewals)
	defer next.Stop()
	for {
		select {
		case <-l.ctx.Done():
			if l.lasting.Err() != nil {
				over.Stop()
			}
			return
		case <-next.C:
		}
		began := time.Now()
		switch err := l.renew(); {
		case errors.Is(err, ErrLost):
			l.cancel(ErrLost)
			return
		case err != nil:
			next.Reset(span / looks) // the store may be away for a moment
		default:
			over.Reset(time.Until(began.Add(span - span/margins)))
			next.Reset(span / renewals)
		}
	}
}

// renew lets the lease last for another span.
func (l *Lease) renew() error {
	_, err := l.holder.Writer.Write(l.ctx, model.Credential, func(tx store.Tx) error {
		f, err := l.own(tx)
		if err != nil {
			return err
		}
		f.row.Turn++
		return f.replace(tx, l.name, f.row)
	})
	return err
}

// Release gives the lease back, so that others need not wait for its end. ctx bounds the write.
func (l *Lease) Release(ctx context.Context) {
	l.cancel(ErrLost)
	<-l.ended
	// One that cannot be given back now is over after its span.
	_, _ = l.holder.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		f, err := l.own(tx)
		if err != nil {
			return err
		}
		return f.replace(tx, l.name, Row{Epoch: f.row.Epoch})
	})
}

// Remove removes the row of a lease that nobody will take any more, in a transaction. One that somebody holds
// stays; where the store is of this process alone, other processes hold none.
func (h *Holder) Remove(tx store.Tx, name string) error {
	f, err := find(tx, name)
	if err != nil {
		return err
	}
	free := !f.damaged && f.row.Holder == "" || h.Sole && f.row.Holder != h.Holder
	if !free || f.version == 0 && !f.damaged {
		return nil
	}
	return tx.Delete(Leases, "", name, f.version)
}

// find reads a row.
func find(r store.Reader, name string) (found, error) {
	res, err := r.Get(Leases, "", name)
	switch {
	case fault.Is(err, fault.NotFound):
		return found{}, nil
	case errors.Is(err, store.ErrUnreadable):
		return found{damaged: true}, nil
	case err != nil:
		return found{}, err
	}
	return found{row: *res.Spec.(*Row), version: res.Version}, nil
}

// replace writes a row in place of the one that was found. One that cannot be read is removed before: an update
// of it would break the transaction.
func (f found) replace(tx store.Tx, name string, row Row) (err error) {
	res := &model.Resource{Kind: Leases, Name: name, Spec: &row}
	if f.damaged {
		if err := tx.Delete(Leases, "", name, 0); err != nil {
			return err
		}
	}
	if f.version == 0 {
		_, err = tx.Create(res)
	} else {
		_, err = tx.Update(res, f.version)
	}
	return err
}

// unknown is an epoch to go on from when the last one cannot be read. It is chosen at random from so many that it
// is none of those before, also not of this process: their holders stay fenced off.
func unknown() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])>>1 | 1<<62
}
