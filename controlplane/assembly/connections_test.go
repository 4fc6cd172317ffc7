package assembly

import (
	"bufio"
	"crypto/tls"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// withUsers runs a control plane that trusts client certificates of the authorities in a file.
func withUsers(t *testing.T, caFile string) *ControlPlane {
	t.Helper()
	return startServing(t, config.Config{
		Access: config.Access{LocalhostIsAdmin: caFile == "", Anonymous: true, ClientCAFile: caFile, Roles: []access.Role{{Role: "viewer", All: true, Groups: []string{"viewers"}}}},
	}, slog.New(slog.DiscardHandler))
}

// TestAuthoritiesAreLookedAtAgain: when an authority of client certificates is no longer trusted,
// the connections that began with one of its certificates have no rights any more.
func TestAuthoritiesAreLookedAtAgain(t *testing.T) {
	clients, others := signedBy(t, nil, pkix.Name{CommonName: "clients"}), signedBy(t, nil, pkix.Name{CommonName: "other clients"})
	caFile := filepath.Join(t.TempDir(), "clients.pem")
	trust := func(cas ...tls.Certificate) {
		var text []byte
		for _, ca := range cas {
			text = append(text, pemtext.Certificate(ca.Certificate[0])...)
		}
		if err := os.WriteFile(caFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust(clients)
	cp := withUsers(t, caFile)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: cp.authority.Pool(), MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{signedBy(t, &clients, pkix.Name{CommonName: "vi", Organization: []string{"viewers"}})},
	}}}
	defer client.CloseIdleConnections()
	ask := func(port int, path string) (status int, reused bool) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://localhost:%d%s", port, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
		return a.StatusCode, reused
	}
	ports := map[int]string{cp.MeshTLSPort(): "/meshes", port(cp.ports.adminTLS): "/services"}
	for _, step := range []struct {
		trusted []tls.Certificate
		want    int
	}{{[]tls.Certificate{clients}, 200}, {[]tls.Certificate{clients, others}, 200}, {[]tls.Certificate{others}, 401}} {
		trust(step.trusted...)
		for port, path := range ports {
			if status, reused := ask(port, path); status != step.want || len(step.trusted) == 1 && step.want == 401 && !reused {
				t.Errorf("%s with %d authorities: %d, want %d; the same connection: %t", path, len(step.trusted), status, step.want, reused)
			}
		}
	}
}

const (
	// flood is more connections than one address may have.
	flood = 520
	// waited is less than a connection may rest after an answer. One that is closed later may have been so for that.
	waited = 50 * time.Second
)

// flooded opens connections, each of which gets an answer, until the first of them is closed for those that came after
// it. If that takes so long that it may have been closed for its rest, it begins anew.
func flooded(t *testing.T, dial func() (net.Conn, error)) {
	t.Helper()
	var conns []net.Conn
	end := func() {
		for _, c := range conns {
			_ = c.Close()
		}
		conns = nil
	}
	t.Cleanup(end)
	for range 3 {
		for began := time.Now(); time.Since(began) < waited; {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			answered(t, c)
			if len(conns) < flood {
				continue
			}
			_ = conns[0].SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := conns[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) && time.Since(began) < waited {
				return
			}
		}
		end()
	}
	t.Fatal("the oldest of too many connections is still there")
}

// answered makes a request on a connection, which rests then.
func answered(t *testing.T, c net.Conn) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/versions", nil)
	if err == nil {
		err = r.Write(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, a.Body)
	_ = a.Body.Close()
	if a.Close {
		t.Fatalf("the connection does not go on after %d", a.StatusCode)
	}
}

// TestFloodsShutNobodyOut: a client that opens connections to the ports of the APIs loses its
// oldest ones, and an administrator on this machine is answered.
func TestFloodsShutNobodyOut(t *testing.T) {
	cp := withUsers(t, "")
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}, Timeout: conditionPatience}
	trusting := &tls.Config{RootCAs: cp.authority.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
	dial := map[string]func(address string) (net.Conn, error){
		"http":  func(address string) (net.Conn, error) { return from.Dial("tcp", address) },
		"https": func(address string) (net.Conn, error) { return tls.DialWithDialer(from, "tcp", address, trusting) },
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, DisableKeepAlives: true}}
	for at, path := range map[string]string{
		fmt.Sprintf("http://127.0.0.1:%d", cp.MeshPort()): "/global-secrets", fmt.Sprintf("https://127.0.0.1:%d", cp.MeshTLSPort()): "/global-secrets",
		fmt.Sprintf("http://127.0.0.1:%d", cp.AdminPort()): "/services", fmt.Sprintf("https://127.0.0.1:%d", port(cp.ports.adminTLS)): "/services",
	} {
		scheme, address, _ := strings.Cut(at, "://")
		t.Run(scheme+" "+path, func(t *testing.T) {
			flooded(t, func() (net.Conn, error) { return dial[scheme](address) })
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _ = a.Body.Close(); a.StatusCode != http.StatusOK {
				t.Errorf("it answers %d", a.StatusCode)
			}
		})
	}
}
