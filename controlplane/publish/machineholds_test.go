package publish_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// issuers issues the certificates of workloads by the current issuer of their mesh.
type issuers struct {
	*identities
	m *machine
}

// Workload implements publish.Identities.
func (i issuers) Workload(ctx context.Context, meshName, dataplane string) (w publish.Workload, err error) {
	err = i.m.db.View(ctx, func(r store.Reader) error {
		d, err := r.Get(mesh.Dataplanes, meshName, dataplane)
		if err != nil {
			return err
		}
		t, err := r.Get(mesh.Trusts, meshName, meshName)
		if err != nil {
			return err
		}
		w.Issuer, w.Sources = t.Spec.(*mesh.Trust).Issuer, d.Spec.(*mesh.Dataplane).TagSets()
		w.Pair = i.m.pairs[w.Issuer]
		return nil
	})
	return w, err
}

func (m *machine) issuer() (issuer string) {
	_ = m.db.View(context.Background(), func(r store.Reader) error { // a closed store has no issuer
		t, err := r.Get(mesh.Trusts, meshName, meshName)
		if err == nil {
			issuer = t.Spec.(*mesh.Trust).Issuer
		}
		return err
	})
	return issuer
}

// difference describes what a proxy has but should not have, and what it should have but
// does not. It is empty if there is no difference. A resource that the proxy refused, and
// was not sent again since, counts as unchanged.
func (m *machine) difference(c *proxyClient, v xdstest.View, set *resource.Set) string {
	var out bytes.Buffer
	for _, t := range []resource.TypeURL{resource.Cluster, resource.Listener, resource.Route, resource.Endpoint} {
		for r := range set.Each(t) {
			if !m.wants(c, v, set, r) {
				continue
			}
			refused, was := v.Refused(t, r.Name)
			if has := v.Version(t, r.Name); has != r.Version && (!was || refused != r.Version) {
				fmt.Fprintf(&out, "%s %s is %q, published %q\n", t, r.Name, has, r.Version)
			} else if has == r.Version && v.Body(t, r.Name) != nil && !bytes.Equal(v.Body(t, r.Name), r.Body) {
				fmt.Fprintf(&out, "%s %s has other bytes under the same version\n", t, r.Name)
			}
		}
		for _, name := range v.Names(t) {
			if set.Get(t, name) != nil || c.bare && t != resource.Cluster && t != resource.Listener {
				continue // an Envoy keeps routes and assignments that nothing names
			}
			if refused, was := v.Refused(t, name); !was || refused != "" {
				fmt.Fprintf(&out, "%s %s is not published\n", t, name)
			}
		}
	}
	if c.bare {
		if n := v.Warming(); n > 0 {
			fmt.Fprintf(&out, "%d clusters are warming\n", n)
		}
	}
	m.secrets(&out, c, v, set)
	return out.String()
}

// wants reports whether a proxy asks for a resource. An agent asks for all, an Envoy for
// what its clusters and listeners name.
func (m *machine) wants(c *proxyClient, v xdstest.View, set *resource.Set, r *resource.Resource) bool {
	switch {
	case !c.bare || r.Type == resource.Cluster || r.Type == resource.Listener:
		return true
	case r.Type == resource.Endpoint:
		return v.Version(resource.Cluster, r.Name) != "" && v.Asks(r.Type, r.Name)
	default:
		return v.Asks(r.Type, r.Name)
	}
}

// secrets compares secrets by name and content. With an agent it compares all secrets, with
// an Envoy those that it asks for. An Envoy keeps secrets that nothing names.
func (m *machine) secrets(out *bytes.Buffer, c *proxyClient, v xdstest.View, set *resource.Set) {
	for _, name := range set.Secrets() {
		if c.bare && !v.Asks(resource.Secret, name) {
			continue
		}
		has := v.Body(resource.Secret, name)
		want := m.ids.roots
		if name == mesh.SecretIdentity(meshName) {
			want = m.pairs[m.issuer()].Certificate
		}
		if r := set.Get(resource.Secret, name); r != nil {
			want = r.Body
		}
		if v.Version(resource.Secret, name) == "" {
			fmt.Fprintf(out, "secret %s is missing\n", name)
		} else if has != nil && !bytes.Contains(has, want) {
			fmt.Fprintf(out, "secret %s is not the present one\n", name)
		} else if c.bare && has != nil {
			m.bareSecrets = true
		}
	}
	if c.bare {
		return
	}
	for _, name := range v.Names(resource.Secret) {
		if !set.AllowsSecret(name) {
			fmt.Fprintf(out, "secret %s is not published\n", name)
		}
	}
}
