package engine

import (
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/filter/contract"
)

// terminationStep answers in place of the upstream. It runs last, when the consumer is
// known. This is how anonymous access can be forbidden.
type terminationStep struct {
	otherwise *ending // nil lets the request pass
	consumers map[string]*ending
}

// ending is one prepared answer.
type ending struct {
	refusal *Refusal
	// trigger is what a request must contain to be answered. It is nil if every request is
	// answered.
	trigger *param
	header  int
}

func newTermination(p *Program, c *contract.Termination) (*terminationStep, error) {
	s := &terminationStep{consumers: make(map[string]*ending, len(c.Consumers))}
	if c.Default != nil {
		e, err := newEnding(p, c.Default)
		if err != nil {
			return nil, err
		}
		s.otherwise = e
	}
	for id, a := range c.Consumers {
		e, err := newEnding(p, &a)
		if err != nil {
			return nil, err
		}
		s.consumers[id] = e
	}
	return s, nil
}

func newEnding(p *Program, a *contract.Answered) (*ending, error) {
	contentType := a.ContentType
	if contentType == "" {
		contentType = jsonType
	}
	if !validValue(contentType) {
		return nil, errors.New("termination.content_type cannot be sent in a header")
	}
	r := &Refusal{
		Status: a.Status, GRPCStatus: grpcStatus(a.Status), Reason: contract.ReasonTerminated,
		Headers: [][2]string{{typeHeader, contentType}}, Body: a.Body,
	}
	// These statuses have no content. Source: RFC 9110 sections 15.3.5, 15.3.6, 15.4.5.
	if a.Status == http.StatusNoContent || a.Status == http.StatusResetContent || a.Status == http.StatusNotModified {
		r.Headers, r.Body = nil, ""
	}
	e := &ending{refusal: r}
	if a.Trigger != "" {
		e.trigger, e.header = &param{name: a.Trigger, fold: true}, p.headers.index(a.Trigger)
	}
	return e, nil
}

// run ends the request if there is an answer for its consumer.
func (s *terminationStep) run(req *Request, d *decision, v *Verdict) (done bool) {
	if d.issuing {
		return false
	}
	e := s.otherwise
	if id := cut(d.buf, v.Headers[contract.HeaderConsumerID]); len(id) > 0 {
		if own := s.consumers[string(id)]; own != nil {
			e = own
		}
	}
	if e == nil {
		return false
	}
	if e.trigger != nil {
		value, known := req.header(e.header)
		if !known {
			return need(v, NeedHeaders)
		}
		if found, _ := findPair(query(req.Path), e.trigger, nil); value == nil && found == absent {
			return false
		}
	}
	return refuse(v, e.refusal)
}
