package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// plane is the process under test with its Envoy, and what serves it.
type plane struct {
	*framework.ControlPlane
	children []*exec.Cmd
	ended    chan struct{} // the process under test
	upstream *httptest.Server
	http     *http.Client
	envoy    int
	redis    int // its port, or 0

	service, application, revision string
}

// startPlane starts meshgate standalone with its own state and ports.
func startPlane(ctx context.Context, o *options) (*plane, error) {
	// The framework reports through gomega; here that ends the program.
	gomega.RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	ports := framework.FreePorts(9)
	p := &plane{ended: make(chan struct{}), ControlPlane: &framework.ControlPlane{
		Command: "standalone", StateDir: filepath.Join(o.dir, "state"), Args: []string{"--log-level", "warn"},
		Data: ports[0], Diagnostics: ports[1], Mesh: ports[2], Admin: ports[3], AdminTLS: ports[4], HTTP: ports[5], HTTPS: ports[6], Redis: ports[7],
	}}
	p.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	if o.redis {
		p.redis = ports[8]
		url := fmt.Sprintf("redis://127.0.0.1:%d", p.redis)
		p.Args = append(p.Args, "--redis-url", url, "--redis-node-url", url)
		if err := p.child(o.dir, "redis-server", "--port", strconv.Itoa(p.redis), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"); err != nil {
			p.stop()
			return nil, err
		}
	}
	binary, err := o.program()
	if err != nil {
		p.stop()
		return nil, err
	}
	if err := p.child(o.dir, binary, p.Arguments()...); err != nil {
		p.stop()
		return nil, err
	}
	command := p.children[len(p.children)-1]
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	err = framework.AwaitReady(ctx, p.Diagnostics, p.ended)
	if err == nil {
		err = p.connect(o.clients)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("%s does not start: %w; see its log in %s", binary, err, o.dir)
	}
	p.envoy = framework.RunningEnvoy(p.StateDir)
	return p, nil
}

// program is the program to measure.
func (o *options) program() (string, error) {
	if o.binary == "" {
		return framework.Binary(), nil
	}
	return filepath.Abs(o.binary)
}

// child starts a process whose output goes to a file of its name.
func (p *plane) child(dir, path string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, filepath.Base(path)+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	if err := cmd.Start(); err != nil {
		return err
	}
	p.children = append(p.children, cmd)
	return nil
}

// connect makes the client that all load comes from.
func (p *plane) connect(clients int) error {
	pem, err := os.ReadFile(p.CAFile())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("the authority is no certificate")
	}
	p.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: clients,
	}}
	return nil
}

// stop ends what was started, the last first.
func (p *plane) stop() {
	p.upstream.CloseClientConnections()
	p.upstream.Close()
	for i := len(p.children) - 1; i >= 0; i-- {
		_ = p.children[i].Process.Signal(syscall.SIGTERM)
		if i > 0 || p.redis == 0 { // meshgate, which somebody waits for
			select {
			case <-p.ended:
			case <-time.After(30 * time.Second):
				_ = p.children[i].Process.Kill()
				<-p.ended
			}
			continue
		}
		_ = p.children[i].Wait()
	}
}

// usage is CPU of the two processes in seconds.
type usage struct{ controlPlane, envoy float64 }

func (p *plane) usage() (u usage, err error) {
	if u.controlPlane, err = cpu(p.children[len(p.children)-1].Process.Pid); err != nil {
		return u, err
	}
	u.envoy, err = cpu(p.envoy)
	return u, err
}

// cpu reads fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms.
func cpu(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(err, err2)
}

// send sends a request and returns the body of an answer below 400.
func (p *plane) send(ctx context.Context, method, url, contentType, authorization, body string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 400 {
		err = fmt.Errorf("%s %s answered %d: %s", method, url, resp.StatusCode, text)
	}
	return resp.Header, text, err
}

// create writes a document, and returns the id of what was made and the revision
// of the write.
func (p *plane) create(ctx context.Context, path string, doc map[string]any) (id, revision string, err error) {
	body, err := json.Marshal(doc)
	if err != nil {
		return "", "", err
	}
	header, text, err := p.send(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", p.Admin, path), "application/json", "", string(body))
	if err != nil {
		return "", "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	err = json.Unmarshal(text, &made)
	return made.ID, header.Get("X-Mesh-Revision"), err
}

// configure is create of something that Envoy has to know; see converged.
func (p *plane) configure(ctx context.Context, path string, doc map[string]any) (string, error) {
	id, revision, err := p.create(ctx, path, doc)
	if revision != "" {
		p.revision = revision
	}
	return id, err
}

// converged waits until Envoy has the last write.
func (p *plane) converged(ctx context.Context) error {
	for {
		_, text, err := p.send(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/revisions/%s?wait=30s", p.Admin, p.revision), "", "", "")
		if err != nil {
			return err
		}
		var said struct {
			Proxies struct {
				Waiting, Rejected []any
			}
		}
		if err := json.Unmarshal(text, &said); err != nil {
			return err
		}
		if len(said.Proxies.Rejected) > 0 {
			return fmt.Errorf("refused: %s", text)
		}
		if len(said.Proxies.Waiting) == 0 {
			return nil
		}
	}
}
