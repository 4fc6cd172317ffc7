package oauth

import (
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// errOvertaken is why a request is judged again: its plugin or its client was changed
// after they were read and before anything was stored.
var errOvertaken = errors.New("oauth: what the request was judged by was changed meanwhile")

// configure reads the plugin instance that the request is judged by. It may be called again
// in another state.
func (t *Request) configure(tx store.Reader) error {
	t.serving = nil
	plugin, config, err := t.pluginConfig(tx, t.Plugin)
	if err != nil {
		return err
	}
	t.plugin, t.attached, t.Config, t.seen = plugin, plugin.Spec.(*gateway.Plugin), config, tx.Revision()
	if err := t.serves(tx); err != nil {
		return err
	}
	return t.current(tx)
}

// serves refuses a plugin that does not run on the service which the gateway names: a
// token is for the service, and the grants and scopes are those of the plugin. Both are of
// one control plane, as its routes are: that another member has their ids changes nothing.
func (t *Request) serves(tx store.Reader) error {
	if err := t.served(tx); err != nil {
		return err
	}
	service := t.attached.Service
	if t.attached.Route != "" {
		route, err := tx.Get(gateway.Routes, t.plugin.Scope, t.attached.Route)
		if err != nil {
			return err
		}
		service = route.Spec.(*gateway.Route).Service
	} else if service == "" {
		return nil // it runs everywhere
	}
	if service != t.Service {
		return fault.New(fault.Unavailable, "plugin %s does not run on service %q", t.Plugin, t.Service)
	}
	return nil
}

// served refuses the service of another member than the plugin's.
func (t *Request) served(tx store.Reader) error {
	src, err := t.source(tx)
	if err != nil || !src.IsUnion() || t.Service == "" {
		return err
	}
	service, err := src.Get(gateway.Services, t.Service)
	if err == nil && !t.offered(service) {
		err = fault.New(fault.Unavailable, "plugin %s does not run on service %q of control plane %q", t.Plugin, t.Service, service.Scope)
	}
	return err
}

// stands takes the time by which the request is judged, and makes sure that what it is
// judged by still stands. Every transaction that gives or tells something calls it
// first: a secret or a key that is replaced while the request waits, for the hashing of
// others or for its turn to write, opens nothing any more. All changes of plugins and of
// applications take a revision, so most of the time comparing that is enough.
func (t *Request) stands(tx store.Reader) error {
	t.judged()
	if tx.Revision() == t.seen {
		return nil
	}
	for _, read := range []*model.Resource{t.plugin, t.serving, t.Application} {
		if read == nil {
			continue
		}
		if err := t.unchanged(tx, read); err != nil {
			return err
		}
	}
	if err := t.serves(tx); err != nil {
		return fmt.Errorf("%w: %w", errOvertaken, err)
	}
	return nil
}

// unchanged makes sure that what was read stands, and belongs to the control plane still.
// A plugin is the one that gateways hold of its id, which another member may have had first;
// an application is whatever others there are of its id.
func (t *Request) unchanged(tx store.Reader, read *model.Resource) error {
	src, err := t.source(tx)
	if err != nil {
		return err
	}
	if read.Kind == gateway.Applications && src.Has(read.Scope) {
		src = src.In(read.Scope)
	}
	now, err := src.Get(read.Kind, read.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		return fmt.Errorf("%w: %s %s is gone", errOvertaken, read.Kind.Name, read.Name)
	case err != nil:
		return err
	case now.Scope != read.Scope || now.Version != read.Version || now.CreatedRevision != read.CreatedRevision || !now.Created.Equal(read.Created):
		return fmt.Errorf("%w: %s %s", errOvertaken, read.Kind.Name, read.Name)
	}
	return nil
}

// pluginConfig reads an oauth2 plugin instance and its configuration.
func (t *Request) pluginConfig(r store.Reader, id string) (*model.Resource, *gateway.OAuth2Config, error) {
	res, err := t.get(r, gateway.Plugins, id)
	if err != nil {
		return nil, nil, err
	}
	spec := res.Spec.(*gateway.Plugin)
	if spec.Name != gateway.PluginOAuth2 || !spec.Enabled {
		return nil, nil, fault.New(fault.NotFound, "plugin %s is not an enabled oauth2 plugin", id)
	}
	cfg, err := t.decoded.of(res)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, err, "decode configuration of plugin %s", id)
	}
	return res, cfg, nil
}
