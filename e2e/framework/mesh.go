package framework

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Mesh calls the mesh API with a JSON document (or none).
func (a *API) Mesh(method, path string, doc any) *Response {
	var body []byte
	header := http.Header{}
	if doc != nil {
		body, _ = json.Marshal(doc)
		header.Set("Content-Type", "application/json")
	}
	r, err := Do(a.HTTP, method, fmt.Sprintf("http://127.0.0.1:%d%s", a.c.Mesh, path), header, string(body))
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	if v := r.Header.Get("X-Mesh-Revision"); v != "" {
		a.Revision = v
	}
	return r
}

// Document is a resource of the mesh API.
type Document map[string]any

// Put stores a document under the path that its type, mesh and name say.
func (a *API) Put(path string, d Document) *Response {
	url := "/" + path + "/" + d["name"].(string)
	if m, ok := d["mesh"].(string); ok {
		url = "/meshes/" + m + url
	}
	r := a.Mesh(http.MethodPut, url, d)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.BeElementOf(http.StatusOK, http.StatusCreated), url+": "+r.Body)
	return r
}

// Delete removes a document of a mesh.
func (a *API) Delete(mesh, path, name string) {
	r := a.Mesh(http.MethodDelete, "/meshes/"+mesh+"/"+path+"/"+name, nil)
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
}

// Workload is an HTTP server of the test behind a sidecar. It answers with its
// name and what it received.
type Workload struct {
	*httptest.Server
	Name string
	Port int
}

// StartWorkload starts one on 127.0.0.1.
func StartWorkload(name string) *Workload {
	w := &Workload{Name: name}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"name": name, "path": r.URL.RequestURI(), "headers": r.Header})
	}))
	ginkgo.DeferCleanup(w.Close)
	w.Port = w.Listener.Addr().(*net.TCPAddr).Port
	return w
}

// Sidecar is the Envoy of a dataplane, run by meshgate dataplane.
type Sidecar struct {
	*Process
	Mesh, Name string
	StateDir   string
	// Envoy is an Envoy other than the one beside the program, if set.
	Envoy string
	c     *ControlPlane
	args  []string
}

// NewSidecar prepares the sidecar of a dataplane that exists or that file
// describes (a file with the document; may be empty). It gets a token of its own.
func NewSidecar(c *ControlPlane, mesh, name, file string, more ...string) *Sidecar {
	s := &Sidecar{Mesh: mesh, Name: name, StateDir: ginkgo.GinkgoT().TempDir(), c: c}
	token := filepath.Join(s.StateDir, "token")
	r := c.API().Mesh(http.MethodPost, "/tokens/dataplane", map[string]any{"name": name, "mesh": mesh, "validFor": "24h"})
	gomega.ExpectWithOffset(1, r.Status).To(gomega.Equal(http.StatusOK), r.Body)
	gomega.ExpectWithOffset(1, os.WriteFile(token, []byte(r.Body), 0o600)).To(gomega.Succeed())
	s.args = append([]string{
		"dataplane", "--proxy-type", "sidecar", "--cp-address", fmt.Sprintf("https://127.0.0.1:%d", c.Data), "--ca-cert-file", c.CAFile(),
		"--mesh", mesh, "--name", name, "--dataplane-token-file", token, "--state-dir", s.StateDir, "--log-level", "debug",
	}, more...)
	if file != "" {
		s.args = append(s.args, "--dataplane-file", file)
	}
	return s
}

// Start starts the sidecar (again), without waiting for it.
func (s *Sidecar) Start() *Sidecar {
	endEnvoyOf(s.StateDir)
	args := s.args
	if s.Envoy != "" {
		args = append(args[:len(args):len(args)], "--envoy-path", s.Envoy)
	}
	s.Process = Start(nil, Binary(), args...)
	return s
}

// TokenFile is where the sidecar reads its token.
func (s *Sidecar) TokenFile() string { return filepath.Join(s.StateDir, "token") }

// Admin asks Envoy's admin interface on its Unix socket.
func (s *Sidecar) Admin(path string) (string, error) {
	sockets, err := filepath.Glob(filepath.Join(s.StateDir, "run", "*", "admin.sock"))
	if err != nil || len(sockets) != 1 {
		return "", fmt.Errorf("%d admin sockets below %s", len(sockets), s.StateDir)
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", sockets[0]) },
	}}
	r, err := Do(client, http.MethodGet, "http://envoy"+path, nil, "")
	if err != nil {
		return "", err
	}
	return r.Body, nil
}

// Stat reads one counter or gauge of Envoy; 0 for one that does not exist.
func (s *Sidecar) Stat(name string) int {
	text, err := s.Admin("/stats")
	gomega.ExpectWithOffset(1, err).NotTo(gomega.HaveOccurred())
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && key == name {
			n, _ := strconv.Atoi(value)
			return n
		}
	}
	return 0
}

// WaitServing waits until an address accepts connections.
func WaitServing(address string, output func() string) {
	gomega.EventuallyWithOffset(1, func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}, ReadyTimeout, 50*time.Millisecond).Should(gomega.Succeed(), output)
}
