package assembly

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
)

// listeners holds all ports of the control plane. They are opened before anything else, so
// that a port that is in use leaves nothing half started.
type listeners struct {
	data, diagnostics, mesh, meshTLS, admin, adminTLS, cloud, cloudTLS net.Listener
}

func openListeners(ctx context.Context, c *config.Config) (*listeners, error) {
	l := &listeners{}
	for _, p := range []struct {
		into            *net.Listener
		setting, listen string
		port            int
	}{
		{&l.data, "dataPlane.port", c.DataPlane.Listen, c.DataPlane.Port},
		{&l.diagnostics, "diagnostics.port", c.Diagnostics.Listen, c.Diagnostics.Port},
		{&l.mesh, "mesh.port", c.Mesh.Listen, c.Mesh.Port},
		{&l.meshTLS, "mesh.tlsPort", c.Mesh.Listen, c.Mesh.TLSPort},
		{&l.admin, "admin.port", c.Admin.Listen, c.Admin.Port},
		{&l.adminTLS, "admin.tlsPort", c.Admin.Listen, c.Admin.TLSPort},
		{&l.cloud, "cloud.port", config.CloudHTTP, c.Cloud.Port},
		{&l.cloudTLS, "cloud.tlsPort", c.Cloud.Listen, c.Cloud.TLSPort},
	} {
		ln, err := listenAfter(ctx, c, p.setting, p.listen, p.port)
		if err != nil {
			l.close()
			return nil, err
		}
		*p.into = ln
	}
	return l, nil
}

// A process that is killed gives back its locks and its ports one after the other. Whoever has stood by for its
// end asks for a port that is in use every leaving/100 until it has to be free.
const leaving = 2 * time.Second

// listenAfter is [listen], which has some patience with a port if another process may just have ended.
func listenAfter(ctx context.Context, c *config.Config, setting, address string, port int) (ln net.Listener, err error) {
	for began := time.Now(); ; {
		ln, err = listen(setting, address, port)
		if !c.Store.Standby || !errors.Is(err, syscall.EADDRINUSE) || time.Since(began) > leaving {
			return ln, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(leaving / 100):
		}
	}
}

func (l *listeners) close() {
	for _, ln := range l.all() {
		_ = ln.Close()
	}
}

// all lists the ports that are open.
func (l *listeners) all() []net.Listener {
	return slices.DeleteFunc([]net.Listener{l.data, l.diagnostics, l.mesh, l.meshTLS, l.admin, l.adminTLS, l.cloud, l.cloudTLS}, func(ln net.Listener) bool { return ln == nil })
}

func port(ln net.Listener) int { return ln.Addr().(*net.TCPAddr).Port }

// AdminPort returns the port of the administration API.
func (cp *ControlPlane) AdminPort() int { return port(cp.ports.admin) }

// MeshTLSPort returns the port of the mesh API over HTTPS.
func (cp *ControlPlane) MeshTLSPort() int { return port(cp.ports.meshTLS) }

// MeshPort returns the port of the mesh API.
func (cp *ControlPlane) MeshPort() int { return port(cp.ports.mesh) }

// CloudPort returns the port of the cloud API.
func (cp *ControlPlane) CloudPort() int { return port(cp.ports.cloud) }
