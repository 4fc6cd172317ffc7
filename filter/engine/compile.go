package engine

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/filter/contract"
)

// Compile turns a chain into a program. It fails if the chain cannot be executed exactly as
// written; the caller then uses [Broken]. Compile does not keep the chain.
func Compile(c *contract.Chain) (*Program, error) {
	if c == nil || len(c.Plugins) == 0 && c.Protocol == "" {
		return nil, errors.New("chain has no plugins")
	}
	if !validValue(c.Service) {
		return nil, errors.New("service id cannot be sent in a header")
	}
	p := &Program{id: programs.Add(1), service: c.Service, plane: c.ServicePlane, issues: c.Issues}
	if err := p.read(c); err != nil {
		return nil, err
	}
	p.protocol = newProtocol(c.Protocol, &p.headers)
	for i := range c.Plugins {
		if err := p.add(&c.Plugins[i]); err != nil {
			return nil, fmt.Errorf("plugins[%d]: %w", i, err)
		}
	}
	return p, nil
}

// read collects the headers and parameters that the chain uses. The headers of the first
// plugin are read early, and so are those of every plugin that always runs. A plugin with an
// anonymous consumer does not run after the first plugin has accepted a credential, so its
// headers are read late.
func (p *Program) read(c *contract.Chain) error {
	late := headerList{}
	p.headers.add(protocolHeaders(c.Protocol)...)
	for i := range c.Plugins {
		switch plugin := &c.Plugins[i]; {
		case plugin.OAuth2 != nil:
			p.params = append(p.params, param{name: accessToken})
			p.at(i, plugin.OAuth2.Anonymous, &late).add(plugin.OAuth2.Header)
			if plugin.OAuth2.InBody {
				p.lateBody = p.lateBody || i > 0
				late.add(bodyHeaders...)
			}
		case plugin.KeyAuth != nil:
			k := plugin.KeyAuth
			at := p.at(i, k.Anonymous, &late)
			if k.SkipPreflight {
				at.add(methodHeader)
			}
			for _, n := range k.Names {
				p.params = append(p.params, param{name: n, fold: true})
				if k.InHeader {
					at.add(n)
				}
			}
			if k.InBody {
				p.lateBody = p.lateBody || i > 0
				late.add(bodyHeaders...)
			}
		}
	}
	late.add(c.Triggers()...)
	p.queryNames = c.Triggers()
	for i := range p.params {
		p.queryNames = append(p.queryNames, p.params[i].name)
	}
	p.headers.early = len(p.headers.names)
	p.headers.add(late.names...)
	return p.checkHeaders(c)
}

// at returns the list that the headers of the plugin at index i belong to.
func (p *Program) at(i int, a *contract.Anonymous, late *headerList) *headerList {
	if i == 0 || a == nil {
		return &p.headers
	}
	return late
}

// checkHeaders refuses invalid names, and names that gateways remove from requests. Only the
// program itself may read pseudo headers.
func (p *Program) checkHeaders(c *contract.Chain) error {
	names := c.Triggers()
	for i := range c.Plugins {
		switch plugin := &c.Plugins[i]; {
		case plugin.OAuth2 != nil:
			names = append(names, plugin.OAuth2.Header)
		case plugin.KeyAuth != nil:
			names = append(names, plugin.KeyAuth.Names...)
		}
	}
	for _, n := range names {
		switch {
		case !validName(n):
			return fmt.Errorf("%q is not a lower-case header name", n)
		case contract.IsReserved([]byte(n), false):
			return fmt.Errorf("%q is reserved: gateways remove it from requests", n)
		}
	}
	if len(p.params) > maxParams || len(p.headers.names) > MaxHeaders {
		return errors.New("chain looks for credentials under too many names")
	}
	return nil
}

// add appends one plugin. A chain holds at most one instance of each kind, because the
// control plane has already chosen the effective one.
func (p *Program) add(plugin *contract.Plugin) (err error) {
	var s step
	switch {
	case plugin.OAuth2 != nil:
		s.oauth2, err = newOAuth2(p, plugin.ID, plugin.OAuth2)
		if p.token != nil {
			return errors.New("a chain has one oauth2 plugin at most")
		}
		p.token = s.oauth2
	case plugin.KeyAuth != nil:
		s.keyAuth, err = newKeyAuth(p, plugin.ID, plugin.KeyAuth)
	case plugin.Termination != nil:
		s.termination, err = newTermination(p, plugin.Termination)
	default:
		err = errors.New("no known plugin is configured")
	}
	if err != nil {
		return err
	}
	for i := range p.steps {
		switch old := &p.steps[i]; {
		case old.termination != nil:
			return errors.New("nothing runs behind a request-termination plugin")
		case old.keyAuth != nil && s.keyAuth != nil:
			return errors.New("a chain has one key-auth plugin at most")
		}
	}
	p.steps = append(p.steps, s)
	return nil
}

// paramIndex returns the index of a parameter that read has collected.
func (p *Program) paramIndex(name string) int { return paramIndex([]byte(name), p.params) }
