package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// anonymous is the prepared fallback to a consumer without a credential.
type anonymous struct {
	// refusal is set if there is no consumer to fall back to.
	refusal *Refusal
	// values are copied into the buffer of the request; headers point into them.
	values  []byte
	headers [contract.NumIdentityHeaders]contract.Span
}

// newAnonymous prepares the fallback. It returns nil if there is none. If no header can
// carry the consumer, only the fallback fails; requests with a good credential are not
// affected.
func newAnonymous(c *contract.Anonymous) (*anonymous, error) {
	switch {
	case c == nil:
		return nil, nil //nolint:nilnil // nil is what a plugin without a fallback has
	case c.Consumer == nil:
		return &anonymous{refusal: refuseNoAnonymous(c.Configured)}, nil
	case c.Consumer.ID == "":
		return nil, errors.New("anonymous: consumer has no id")
	}
	a := &anonymous{}
	for _, f := range [...]struct {
		header contract.Header
		value  string
	}{
		{contract.HeaderConsumerID, c.Consumer.ID},
		{contract.HeaderConsumerCustomID, c.Consumer.CustomID},
		{contract.HeaderConsumerUsername, c.Consumer.Username},
		{contract.HeaderAnonymousConsumer, "true"},
	} {
		if !validValue(f.value) {
			return &anonymous{refusal: refuseUnusable}, nil
		}
		if len(a.values)+len(f.value) > contract.MaxPacked {
			return nil, fmt.Errorf("anonymous: consumer exceeds %d bytes", contract.MaxPacked)
		}
		a.headers[f.header] = contract.Span{
			Off: uint32(len(a.values)), //nolint:gosec // bounded by MaxPacked
			Len: uint32(len(f.value)),  //nolint:gosec // bounded by MaxPacked
		}
		a.values = append(a.values, f.value...)
	}
	return a, nil
}

// fail falls back to the anonymous consumer, or refuses. The fallback does not count as a
// credential, so a later plugin of the chain can still replace it. fail is not called if an
// earlier plugin has accepted a credential.
func (a *anonymous) fail(d *decision, v *Verdict, with *Refusal) (done bool) {
	switch {
	case a == nil:
		return refuse(v, with)
	case a.refusal != nil:
		return refuse(v, a.refusal)
	default:
		copy(d.buf, a.values)
		v.Headers = a.headers
		return false
	}
}
