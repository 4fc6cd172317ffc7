package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
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

// plane is the control-plane process under test.
type plane struct {
	*framework.ControlPlane
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	http http.Client
}

// startPlane starts a control plane with its own state and ports.
func startPlane(ctx context.Context, binary, dir string, args []string) (*plane, error) {
	// The framework reports through gomega; here that ends the program.
	gomega.RegisterFailHandler(func(message string, _ ...int) { panic(message) })
	p := framework.FreePorts(8)
	c := &framework.ControlPlane{
		Command: "run", StateDir: filepath.Join(dir, "state"), Args: append([]string{"--log-level", "warn", "--diagnostics-pprof", "true"}, args...),
		Data: p[0], Diagnostics: p[1], Mesh: p[2], Admin: p[3], AdminTLS: p[4], HTTP: p[5], HTTPS: p[6], Redis: p[7],
	}
	if binary == "" {
		binary = framework.Binary()
	}
	out, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	pl := &plane{ControlPlane: c, cmd: exec.Command(binary, c.Arguments()...), log: out.Name(), done: make(chan struct{})}
	pl.http.Timeout = time.Minute
	pl.cmd.Stdout, pl.cmd.Stderr = out, out
	if err := pl.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = pl.cmd.Wait()
		close(pl.done)
	}()
	if err := framework.AwaitReady(ctx, pl.Diagnostics, pl.done); err != nil {
		pl.stop()
		return nil, fmt.Errorf("%s run: %w\n%s", binary, err, pl.tail())
	}
	return pl, nil
}

func (p *plane) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail is the end of the log.
func (p *plane) tail() string {
	b, _ := os.ReadFile(p.log)
	return string(b[max(0, len(b)-4000):])
}

// call makes a request to the mesh API and expects a status below 300.
func (p *plane) call(ctx context.Context, method, path string, doc any) ([]byte, error) {
	var body io.Reader
	if doc != nil {
		b, err := json.Marshal(doc)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.0.0.1:%d%s", p.Mesh, path), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s answered %d: %s", method, path, resp.StatusCode, bytes.TrimSpace(b))
	}
	return b, err
}

// profile fetches a CPU profile that lasts a while.
func (p *plane) profile(ctx context.Context, file string, length time.Duration) error {
	return p.fetch(ctx, file, fmt.Sprintf("profile?seconds=%d", int(length.Seconds())))
}

// fetch writes a profile into a file.
func (p *plane) fetch(ctx context.Context, file, kind string) error {
	u := fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/%s", p.Diagnostics, kind)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", u, resp.StatusCode)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, resp.Body)
	return err
}

// cpu is the user and system time of the process in seconds.
func (p *plane) cpu() (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseCPU(string(b))
}

// parseCPU reads fields 14 and 15 of proc_pid_stat(5), in ticks of 10 ms.
func parseCPU(stat string) (float64, error) {
	const ticks = 100 // USER_HZ, which is fixed for programs on Linux
	i := strings.LastIndex(stat, ") ")
	if i < 0 {
		return 0, fmt.Errorf("no command in %q", stat)
	}
	fields := strings.Fields(stat[i+2:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("only %d fields in %q", len(fields), stat)
	}
	sum := 0.0
	for _, f := range fields[11:13] {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += float64(v)
	}
	return sum / ticks, nil
}

// memory is in MiB.
type memory struct {
	RSS  float64 `json:"rss_mib"`
	Peak float64 `json:"peak_mib"`
}

func (p *plane) memory() (memory, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return memory{}, err
	}
	return parseMemory(string(b))
}

func parseMemory(status string) (m memory, err error) {
	found := 0
	for line := range strings.Lines(status) {
		for prefix, to := range map[string]*float64{"VmRSS:": &m.RSS, "VmHWM:": &m.Peak} {
			rest, ok := strings.CutPrefix(line, prefix)
			if !ok {
				continue
			}
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return m, err
			}
			*to = kib / 1024
			found++
		}
	}
	if found != 2 {
		return m, fmt.Errorf("VmRSS and VmHWM are not in %q", status)
	}
	return m, nil
}

// ownCPU is the user and system time of this program in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds()
}
