package revoke

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// introspect answers a question without blocking the link. A filter that asks more
// questions at once than allowed is answered Unavailable.
func (l *link) introspect(q *contract.Introspect) {
	begun := time.Now()
	select {
	case l.asked <- struct{}{}:
	default:
		l.reply(&contract.Result{ID: q.ID, Answer: contract.Unavailable})
		l.r.o.Meter.Introspected(IntrospectionShed, time.Since(begun))
		return
	}
	l.work.Go(func() {
		defer func() { <-l.asked }()
		ctx, cancel := context.WithTimeout(l.r.ctx, questionLimit)
		defer cancel()
		res, allowed := l.answer(ctx, q)
		l.reply(res)
		l.r.o.Meter.Introspected(introspected(res, allowed), time.Since(begun))
		if allowed {
			l.mayAsk.Store(true)
			l.tell()
		}
	})
}

// answer reads the store. allowed says that the node may ask about the plugin. Redis is
// filled afterwards by another goroutine, so that a dead Redis does not delay the answer.
func (l *link) answer(ctx context.Context, q *contract.Introspect) (res *contract.Result, allowed bool) {
	res = &contract.Result{ID: q.ID, Answer: contract.Unavailable}
	if !l.r.o.Allowed(l.node, q.Plugin) {
		return res, false
	}
	rec, answer, revision, err := l.r.o.Source.Record(ctx, l.node.ControlPlane, q.Token)
	switch {
	case err != nil:
		l.r.log.Error("token could not be looked up", "node", l.node.ID, "error", err)
	case rec == nil:
		res.Answer, res.Revision = l.reason(answer, q.Token), revision
	default:
		own := *rec
		own.Revision, own.Epoch, own.Until = revision, 0, l.r.o.Clock.Latest().Add(contract.RecordLife).UnixMilli()
		own.Own = false // this was judged for the gateway that asks
		if !l.isTold() {
			own.Plane, own.ServicePlane = "", "" // it may not understand them
		}
		res.Answer, res.Revision, res.Record = contract.Found, revision, &own
		l.r.Refill(l.node.ControlPlane, q.Token)
	}
	return res, true
}

// reason returns why a token is not valid, if the filter understands reasons: Expired while
// the expired token is still stored, Revoked while the revocation is remembered. It returns
// Unknown otherwise.
func (l *link) reason(answer contract.Answer, token contract.Hash) contract.Answer {
	if !l.reasons {
		return contract.Unknown
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if answer == contract.Unknown && l.r.history.isRevoked(l.members.scopes, token) {
		return contract.Revoked
	}
	return answer
}

func (l *link) reply(res *contract.Result) {
	body, err := res.Encode()
	if err != nil {
		l.r.log.Error("record cannot be encoded", "error", err)
		body, _ = (&contract.Result{ID: res.ID, Answer: contract.Unavailable}).Encode() // a result without a record always encodes
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.push(frame{contract.FrameResult, body})
}

// refillInUse writes to Redis the records that the filter of a link holds. Only one batch
// of a link is processed at a time. For a node that may not ask about tokens nothing is
// written. Before the node is planned this is not known, so refillInUse waits for that.
func (l *link) refillInUse(m *contract.InUse) error {
	if !l.refilling.CompareAndSwap(false, true) {
		return errors.New("a second batch of tokens in use while one is under way")
	}
	l.work.Go(func() {
		if !l.checksTokens() && l.r.o.Planned != nil {
			l.r.o.Planned(l.ctx, l.node)
		}
		if l.checksTokens() && !l.r.keeper.fillFor(l.ctx, l.node.ControlPlane, m.Tokens) {
			return
		}
		l.refilling.Store(false)
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		l.push(frame{contract.FrameRefilled, contract.EncodeNumber(m.Number)})
	})
	return nil
}

// checksTokens reports whether the node of a link looks up tokens. This follows from its
// configuration, or from an allowed question that it has asked.
func (l *link) checksTokens() bool {
	return l.mayAsk.Load() || (l.r.o.ChecksTokens != nil && l.r.o.ChecksTokens(l.node))
}
