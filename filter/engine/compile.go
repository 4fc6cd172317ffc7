package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// Compile turns a chain into a program. It fails for a chain that could not be
// executed exactly as it stands; the caller then uses [Broken]. The chain is not
// kept.
func Compile(c *contract.Chain) (*Program, error) {
	if c == nil || len(c.Plugins) == 0 {
		return nil, errors.New("chain has no plugins")
	}
	if !validValue(c.Service) {
		return nil, errors.New("service id cannot be sent in a header")
	}
	p := &Program{service: c.Service}
	for i := range c.Plugins {
		if err := p.add(&c.Plugins[i]); err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	return p, nil
}

// add appends one plugin. A chain holds one instance of each kind at most: the
// control plane has already chosen the effective one.
func (p *Program) add(plugin *contract.Plugin) error {
	if plugin.OAuth2 == nil {
		return errors.New("no known plugin is configured")
	}
	if p.header != "" {
		return errors.New("a chain has one oauth2 plugin at most")
	}
	s, err := newOAuth2(plugin.ID, plugin.OAuth2)
	if err != nil {
		return err
	}
	p.header = plugin.OAuth2.Header
	p.steps = append(p.steps, step{oauth2: s})
	return nil
}

func newOAuth2(id string, c *contract.OAuth2) (*oauth2Step, error) {
	switch {
	case id == "" || !validValue(id):
		return nil, errors.New("plugin id is missing or cannot be sent in a header")
	case !validName(c.Header):
		return nil, fmt.Errorf("oauth2.header %q is not a lower-case header name", c.Header)
	case Spoofs([]byte(c.Header)):
		return nil, fmt.Errorf("oauth2.header %q is reserved: gateways remove it from requests", c.Header)
	}
	s := &oauth2Step{
		id:      id,
		global:  c.Global,
		hide:    c.HideCredentials,
		missing: refuseMissing(c.Realm),
		invalid: refuseInvalid(c.Realm),
		unbound: refuseUnbound(c.Realm),
	}
	if c.Anonymous != nil {
		a, err := newAnonymous(c.Anonymous)
		if err != nil {
			return nil, err
		}
		s.anonymous = a
	}
	return s, nil
}

// newAnonymous prepares the fallback. A consumer that no header can carry makes
// only the fallback fail; requests with a good token are not affected by it.
func newAnonymous(c *contract.Anonymous) (*anonymous, error) {
	if c.Consumer == nil {
		return &anonymous{refusal: refuseNoAnonymous(c.Configured)}, nil
	}
	if c.Consumer.ID == "" {
		return nil, errors.New("oauth2.anonymous: consumer has no id")
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
		if len(a.values)+len(f.value) > BufferSize {
			return nil, fmt.Errorf("oauth2.anonymous: consumer exceeds %d bytes", BufferSize)
		}
		a.headers[f.header] = contract.Span{
			Off: uint32(len(a.values)), //nolint:gosec // bounded by BufferSize
			Len: uint32(len(f.value)),  //nolint:gosec // bounded by BufferSize
		}
		a.values = append(a.values, f.value...)
	}
	return a, nil
}
