package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/meshgate/meshgate/controlplane/agent"
	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// The addresses of the demo's sidecars. Ports that are in use are replaced by free ones, so
// that several demos can run on one machine.
const (
	webAddress, backendAddress = "127.0.0.2", "127.0.0.3"
	webPort, backendPort       = 15080, 15080
	callPort                   = 15001
)

// demoMesh consists of two services, each behind a sidecar. web calls backend at a local
// port, and neither knows about certificates.
type demoMesh struct {
	backend, web *echo
	agents       []*agent.Agent
	// call is the port at which web reaches backend.
	call int
}

// openDemoMesh stores the mesh and its dataplanes and prepares the sidecars.
func openDemoMesh(ctx context.Context, c *config.Config, s *assembly.Standalone, api *visitor) (*demoMesh, error) {
	m := &demoMesh{}
	var err error
	if m.backend, err = startEcho(s.ControlPlane.Log); err != nil {
		return nil, err
	}
	if m.web, err = startEcho(s.ControlPlane.Log); err != nil {
		return m, err
	}
	if m.call, err = freePort("127.0.0.1", callPort); err != nil {
		return m, err
	}
	documents := []struct {
		path string
		doc  map[string]any
	}{
		{"/meshes/" + mesh.Default, map[string]any{"type": "Mesh", "name": mesh.Default, "mtls": map[string]any{
			"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}},
		}}},
		{demoPermission, allowAll()},
	}
	for _, d := range documents {
		if err := api.putMesh(ctx, d.path, d.doc); err != nil {
			return m, err
		}
	}
	if _, err := api.do(ctx, http.MethodDelete, api.mesh+demoTokenAuth, nil, "", nil); err != nil {
		return m, err
	}
	outbound := []any{map[string]any{"port": m.call, "tags": map[string]any{mesh.TagService: "backend"}}}
	if err := m.add(ctx, c, s, api, "backend", backendAddress, backendPort, m.backend.port, nil); err != nil {
		return m, err
	}
	return m, m.add(ctx, c, s, api, "web", webAddress, webPort, m.web.port, outbound)
}

// add stores a dataplane, issues its token and prepares its sidecar.
func (m *demoMesh) add(ctx context.Context, c *config.Config, s *assembly.Standalone, api *visitor, name, address string, wanted, workload int, outbound []any) error {
	inbound, err := freePort(address, wanted)
	if err != nil {
		return err
	}
	networking := map[string]any{"address": address, "inbound": []any{map[string]any{
		"port": inbound, "servicePort": workload, "tags": map[string]any{mesh.TagService: name, mesh.TagProtocol: mesh.ProtocolHTTP},
	}}}
	if outbound != nil {
		networking["outbound"] = outbound
	}
	doc := map[string]any{"type": "Dataplane", "mesh": mesh.Default, "name": name, "networking": networking}
	if err := api.putMesh(ctx, "/meshes/"+mesh.Default+"/dataplanes/"+name, doc); err != nil {
		return err
	}
	token, err := s.ControlPlane.DataplaneTokens().Issue(ctx, identity.DataplaneTokenRequest{Name: name, Mesh: mesh.Default})
	if err != nil {
		return err
	}
	file := filepath.Join(c.StateDir, name+".token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return err
	}
	o := s.Agent.Options
	o.Name, o.TokenFile, o.AdminPort, o.StatusAddress, o.Concurrency = name, file, 0, "", 1
	o.Sidecar = &agent.Sidecar{Mesh: mesh.Default}
	if err := assembly.OfSidecar(ctx, c, &o); err != nil {
		return err
	}
	if o.AccessLog.Path != "" { // each file needs an agent of its own, which rotates it
		o.AccessLog.Path = filepath.Join(filepath.Dir(o.AccessLog.Path), name+".access.log")
	}
	if err := agent.EndPredecessor(ctx, c.StateDir, mesh.NodeID(mesh.Default, name), c.Drain.Timeout, s.ControlPlane.Log); err != nil {
		return err
	}
	a, err := agent.New(o)
	if err != nil {
		return err
	}
	m.agents = append(m.agents, a)
	return nil
}

// run runs the sidecars until ctx ends.
func (m *demoMesh) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, a := range m.agents {
		g.Go(func() error { return a.Run(ctx) })
	}
	return g.Wait()
}

// ready waits until both sidecars serve.
func (m *demoMesh) ready(ctx context.Context) error {
	for _, a := range m.agents {
		select {
		case <-a.Ready():
		case <-ctx.Done():
			return errors.New("a sidecar of the demo does not serve")
		}
	}
	return nil
}

// stop ends the workloads.
func (m *demoMesh) stop(ctx context.Context) {
	for _, e := range []*echo{m.backend, m.web} {
		if e != nil {
			e.stop(ctx)
		}
	}
}

// freePort returns a port of an address: the wanted one, or any if that is in use.
func freePort(address string, wanted int) (int, error) {
	for _, port := range []int{wanted, 0} {
		ln, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = ln.Close() }()
		return ln.Addr().(*net.TCPAddr).Port, nil
	}
	return 0, fmt.Errorf("no port of %s can be opened", address)
}

// The permission that the story removes, and the policy that it adds.
const (
	demoPermission = "/meshes/" + mesh.Default + "/traffic-permissions/allow-all-" + mesh.Default
	demoTokenAuth  = "/meshes/" + mesh.Default + "/meshtokenauths/backend"
)

func allowAll() map[string]any {
	everybody := []any{map[string]any{"match": map[string]any{mesh.TagService: mesh.AnyValue}}}
	return map[string]any{
		"type": "TrafficPermission", "mesh": mesh.Default, "name": "allow-all-" + mesh.Default, "sources": everybody, "destinations": everybody,
	}
}

// tokenAuth requires, on backend, the tokens of the demo's protected route.
func tokenAuth(plugin string) map[string]any {
	return map[string]any{"type": "MeshTokenAuth", "mesh": mesh.Default, "name": "backend", "spec": map[string]any{
		"targetRef": map[string]any{"kind": "MeshService", "name": "backend"},
		"from":      []any{map[string]any{"targetRef": map[string]any{"kind": "Mesh"}, "default": map[string]any{"plugin": map[string]any{"id": plugin}}}},
	}}
}

// tokenAuth returns the policy that requires tokens of the demo's plugin, as JSON.
func (c *visitor) tokenAuth(ctx context.Context) (string, error) {
	r, err := c.do(ctx, http.MethodGet, c.admin+"/services/"+demoService+"/plugins/echo-oauth2", nil, "", nil)
	if err := expect(r, err, http.StatusOK, `"id"`); err != nil {
		return "", fmt.Errorf("look the plugin up: %w", err)
	}
	body, err := json.Marshal(tokenAuth(r.field("id")))
	return string(body), err
}

// putMesh creates or replaces a document of the mesh API.
func (c *visitor) putMesh(ctx context.Context, path string, doc map[string]any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return c.putMeshJSON(ctx, path, body)
}

func (c *visitor) putMeshJSON(ctx context.Context, path string, body []byte) error {
	r, err := c.do(ctx, http.MethodPut, c.mesh+path, nil, "application/json", body)
	if err == nil && r.status != http.StatusOK && r.status != http.StatusCreated {
		err = fmt.Errorf("PUT %s answered %d: %s", path, r.status, r.text())
	}
	return err
}
