package assembly

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// conditionPatience bounds what the tests wait for.
const conditionPatience = time.Minute

// readyOf asks /ready.
func readyOf(t *testing.T, cp *ControlPlane) (int, health.Answer) {
	t.Helper()
	w := httptest.NewRecorder()
	diagnostics(&cp.ready, prometheus.NewRegistry(), profiling{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/ready", nil))
	var a health.Answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return w.Code, a
}

func conditionOf(a health.Answer, name string) health.Condition {
	for _, c := range a.Conditions {
		if c.Name == name {
			return c
		}
	}
	return health.Condition{}
}

// TestReadyOnFullDisk fills a real disk: /ready goes on with 200 and says what is the
// matter, the log says it in one line, and /ready finds out when there is space again,
// although nobody writes.
func TestReadyOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("a small file system cannot be mounted here, which needs root: %v", err)
	}
	cp, log := stateOf(t, dir)
	defer func() {
		cp.closers.run(t.Context())
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := cp.openStore(t.Context()); err != nil {
		t.Fatal(err)
	}
	cp.ready.serving.Store(true)
	if status, a := readyOf(t, cp); status != http.StatusOK || a.Message != "ready" || len(a.Conditions) != 10 {
		t.Fatalf("%d %+v", status, a)
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	var failed error
	for i := 0; i < 10_000 && failed == nil; i++ {
		_, failed = cp.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: model.DefaultControlPlane, Name: uuid.NewString(), Spec: &gateway.Service{Name: uuid.NewString(), Host: strings.Repeat("x", 20<<10)}})
			return err
		})
	}
	for range 20 {
		status, a := readyOf(t, cp)
		c := conditionOf(a, conditionStore)
		if status != http.StatusOK || c.State != health.Degraded || c.Reason != "disk_full" || !strings.Contains(c.Text, dir) || !strings.Contains(c.Text, "507") {
			t.Fatalf("after %v: %d %+v", failed, status, a)
		}
	}
	if n := strings.Count(log.String(), "nothing can be stored"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	deadline, tick := time.After(conditionPatience), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for {
		_, a := readyOf(t, cp)
		if conditionOf(a, conditionStore).State == health.OK {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%+v", a)
		}
	}
	if n := strings.Count(log.String(), "is stored again"); n != 1 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}

// TestStoreFindings: each trouble reads differently, and only what keeps the control
// plane from its work makes it not ready.
func TestStoreFindings(t *testing.T) {
	cp, _ := stateOf(t, t.TempDir())
	cp.ready.serving.Store(true)
	report := storeReport(cp.ready.conditions, "/data/meshgate.db")
	for _, tc := range []struct {
		trouble store.Trouble
		status  int
		text    string
	}{
		{store.DiskFull, 200, "the disk of /data is full"},
		{store.ReadOnly, 200, "the file system of /data is read-only"},
		{store.IOError, 200, "the disk of /data reports an I/O error"},
		{store.Unknown, 503, "the database in /data cannot be read"},
		{store.NoTrouble, 200, ""},
	} {
		report(tc.trouble, errors.New("cause"))
		status, a := readyOf(t, cp)
		c := conditionOf(a, conditionStore)
		if status != tc.status || !strings.HasPrefix(c.Text, tc.text) || c.Reason != string(tc.trouble) || strings.Contains(c.Text, "%!") {
			t.Errorf("%q: %d %+v", tc.trouble, status, c)
		}
		if status == 503 && a.Message != c.Text {
			t.Errorf("the message is %q", a.Message)
		}
	}
}

// TestCertificateConditions: the authority of the control plane and that of Redis are
// looked at, and a file that was replaced is noticed by whoever asks.
func TestCertificateConditions(t *testing.T) {
	cp, log := stateOf(t, t.TempDir())
	cp.cfg.Store.Type = "memory"
	if err := errors.Join(cp.openStore(t.Context()), cp.openIdentities(t.Context())); err != nil {
		t.Fatal(err)
	}
	defer cp.closers.run(t.Context())
	cp.ready.serving.Store(true)
	ends := time.Now().Add(10 * 365 * 24 * time.Hour)
	for _, tc := range []struct {
		at           time.Duration
		reason, text string
	}{
		{-31 * 24 * time.Hour, "", ""},
		{-29 * 24 * time.Hour, "ends_soon", "the authority of the control plane (" + cp.CAFile + ") ends at "},
		{time.Hour, "expired", "the authority of the control plane (" + cp.CAFile + ") expired at "},
	} {
		cp.judgeCertificates(ends.Add(tc.at))
		status, a := readyOf(t, cp)
		if c := conditionOf(a, conditionCertificates); status != http.StatusOK || c.Reason != tc.reason || !strings.HasPrefix(c.Text, tc.text) {
			t.Errorf("%s: %d %+v", tc.at, status, c)
		}
	}
	if n := strings.Count(log.String(), "condition=certificates"); n != 2 {
		t.Errorf("%d lines:\n%s", n, log)
	}

	cp.cfg.Redis.CAFile = filepath.Join(t.TempDir(), "redis.pem")
	write := func(end time.Time) {
		if err := os.WriteFile(cp.cfg.Redis.CAFile, authorityUntil(t, end), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(time.Now().Add(-time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cp.watchCertificates(ctx) }()
	until := func(reason string) {
		t.Helper()
		deadline, tick := time.After(conditionPatience), time.NewTicker(50*time.Millisecond)
		defer tick.Stop()
		for {
			_, a := readyOf(t, cp)
			c := conditionOf(a, conditionCertificates)
			if c.Reason == reason && (reason == "" || strings.Contains(c.Text, cp.cfg.Redis.CAFile)) {
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("%+v", c)
			}
		}
	}
	until("expired")
	write(time.Now().Add(365 * 24 * time.Hour))
	until("")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// authorityUntil makes a certificate of an authority.
func authorityUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-365 * 24 * time.Hour), NotAfter: end, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestCAOnFullDisk: the file that proxies are given survives a start on a full disk.
func TestCAOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := writeCA(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil { // nothing can be written beside it
		t.Fatal(err)
	}
	if err := writeCA(path, []byte("one")); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := writeCA(path, []byte("two")); err == nil {
		t.Error("nothing is said")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "one" {
		t.Errorf("%q, %v", text, err)
	}
}
