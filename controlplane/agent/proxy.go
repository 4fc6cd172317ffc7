package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// proxy is what differs between the types of proxies. The run directory, the relay, the
// filter settings and the supervision are the same for all.
type proxy interface {
	// node returns the node id.
	node() string
	// dir returns the name of the run directory.
	dir() string
	// replaced returns the value of [Process.Replaced].
	replaced() time.Duration
	enrol(ctx context.Context, client *http.Client, token string) (*enrol.Answer, error)
	// withdraw makes other proxies avoid this one, before Envoy is drained. It does nothing
	// for most types.
	withdraw(ctx context.Context, client *http.Client, token string) error
	// leave removes what enrol has registered. It does nothing for most types.
	leave(ctx context.Context, client *http.Client, token string) error
	// bootstrap returns the bootstrap file of Envoy.
	bootstrap(answer *enrol.Answer) ([]byte, error)
}

func (a *Agent) proxy() proxy {
	switch {
	case a.Sidecar == nil:
		return oauthGateway{a}
	case a.Sidecar.ZoneType != "":
		return zoneProxy{sidecar{a}}
	}
	return sidecar{a}
}

// oauthGateway is a proxy that announces where it listens and needs nothing else.
type oauthGateway struct{ *Agent }

func (g oauthGateway) node() string            { return "cp/" + g.ControlPlane + "/" + g.Name }
func (g oauthGateway) dir() string             { return g.Name }
func (g oauthGateway) replaced() time.Duration { return gatewayReplaced }

func (g oauthGateway) enrol(ctx context.Context, client *http.Client, token string) (*enrol.Answer, error) {
	self := g.Instance
	self.ControlPlane, self.RootsFile, self.Filter = g.host, g.systemRoots(), g.Filter
	// The control plane compares what its users call it with what the token says.
	return enrol.Enrol(ctx, client, g.Address, token, g.node(), g.Named, g.running, self)
}

func (g oauthGateway) withdraw(context.Context, *http.Client, string) error { return nil }

func (g oauthGateway) leave(context.Context, *http.Client, string) error { return nil }

func (g oauthGateway) bootstrap(answer *enrol.Answer) ([]byte, error) {
	return bootstrap.Render(bootstrap.Config{
		NodeID: answer.Node, Cluster: "oauth-gateway", Relay: g.Agent.dir.relay, Password: g.password, AdminSocket: g.Agent.dir.admin, Authz: g.authzAddress(),
		AdminPort: uint32(g.AdminPort), //nolint:gosec // checked by Render
	})
}

// Sidecar names the proxy of a mesh that an agent runs.
type Sidecar struct {
	Mesh string
	// ZoneType is the type of a proxy of a zone, which belongs to no mesh; empty for all others.
	ZoneType string
	// Dataplane is the document that the proxy registers at its start and removes at its
	// end. It is empty if the Dataplane exists already.
	Dataplane string
}

// check checks that the names can be used as a node id and a directory.
func (s *Sidecar) check(name string) error {
	if s.ZoneType != "" {
		return CheckZoneProxy(name)
	}
	return CheckSidecar(s.Mesh, name)
}

// Values of [Process.Replaced]. The value for sidecars is short, because connections that a
// permission no longer allows live until their listener has drained.
const (
	gatewayReplaced = 10 * time.Second
	sidecarReplaced = 5 * time.Second
)

var pathName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$`)

// CheckZoneProxy checks the name of a proxy of a zone as [CheckSidecar] does.
func CheckZoneProxy(name string) error { return checkName("name", name) }

func checkName(what, name string) error {
	if !pathName.MatchString(name) {
		return fmt.Errorf("the %s %q must be 1 to 253 of a-z, 0-9, '-', '_' and '.', and begin and end with a letter or digit", what, name)
	}
	return nil
}

// CheckSidecar checks that mesh and name can be used as a node id and a directory.
func CheckSidecar(mesh, name string) error {
	for _, n := range [][2]string{{"mesh", mesh}, {"name", name}} {
		if err := checkName(n[0], n[1]); err != nil {
			return err
		}
	}
	// Node ids are split at their first dot.
	if strings.Contains(mesh, ".") {
		return fmt.Errorf("the mesh %q must have no '.'", mesh)
	}
	return nil
}

// sidecar is the proxy of a Dataplane.
type sidecar struct{ *Agent }

func (s sidecar) node() string            { return s.Sidecar.Mesh + "." + s.Name }
func (s sidecar) dir() string             { return s.node() }
func (s sidecar) replaced() time.Duration { return sidecarReplaced }

func (s sidecar) enrol(ctx context.Context, client *http.Client, token string) (*enrol.Answer, error) {
	return s.join(ctx, client, token, "dataplane")
}

func (s sidecar) join(ctx context.Context, client *http.Client, token, proxyType string) (*enrol.Answer, error) {
	d := s.Agent.dir
	return enrol.Join(ctx, client, s.Address, token, &enrol.Proxy{
		Mesh: s.Sidecar.Mesh, Name: s.Name, ProxyType: proxyType, Resource: s.Sidecar.Dataplane, WorkDir: d.path, Instance: s.instance,
		Version: s.versions(), Starting: proxyType == mesh.ProxyEgress && !s.listens(),
		Relay: &enrol.Relay{
			Socket: d.relay, AdminSocket: d.admin, AdminPort: uint32(s.AdminPort), //nolint:gosec // the control plane checks it
		},
	})
}

func (s sidecar) withdraw(ctx context.Context, client *http.Client, token string) error {
	if s.Sidecar.Dataplane == "" {
		return nil // the operator manages the Dataplane
	}
	return enrol.Withdraw(ctx, client, s.Address, token, s.Sidecar.Mesh, s.Name, s.instance)
}

func (s sidecar) leave(ctx context.Context, client *http.Client, token string) error {
	if s.Sidecar.Dataplane == "" {
		return nil
	}
	return enrol.Leave(ctx, client, s.Address, token, &enrol.Proxy{Mesh: s.Sidecar.Mesh, ProxyType: s.Sidecar.ZoneType, Name: s.Name, Instance: s.instance})
}

// bootstrap takes from the answer only the description of the node. With a bootstrap of
// another author, Envoy would write to files and listen on sockets that the author has
// chosen.
func (s sidecar) bootstrap(answer *enrol.Answer) ([]byte, error) {
	return s.described(s.node(), answer)
}

// described returns the bootstrap of a node with the description in an answer.
func (s sidecar) described(node string, answer *enrol.Answer) ([]byte, error) {
	if len(answer.Bootstrap) == 0 {
		return nil, errors.New("the control plane's answer has no bootstrap")
	}
	var told struct {
		Node struct {
			Cluster  string         `json:"cluster"`
			Metadata map[string]any `json:"metadata"`
		} `json:"node"`
	}
	if err := yaml.Unmarshal(answer.Bootstrap, &told); err != nil {
		return nil, fmt.Errorf("the control plane's answer has a bootstrap that cannot be read: %w", err)
	}
	return bootstrap.Render(bootstrap.Config{
		NodeID: node, Cluster: told.Node.Cluster, Metadata: told.Node.Metadata, Relay: s.Agent.dir.relay, Password: s.password, AdminSocket: s.Agent.dir.admin,
		Logs: s.Agent.dir.logs, Metrics: s.Agent.dir.metrics,
		AdminPort: uint32(s.AdminPort), //nolint:gosec // checked by Render
	})
}
