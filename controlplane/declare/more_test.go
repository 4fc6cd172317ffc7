package declare

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSkipConsumers: neither what the gateway holds of consumers is touched, nor what the file
// says of them, nor plugins that belong to one.
func TestSkipConsumers(t *testing.T) {
	r := newRig(t, "")
	r.must(t, "sync", file(t, whole))
	r.writes = nil
	r.must(t, "sync", "--skip-consumers", file(t, "services:\n- {name: only, host: h}\nconsumers:\n- {username: other}\n"+
		"plugins:\n- {name: request-termination, consumer: alice, service: only, config: {status_code: 404}}\n"))
	for _, w := range r.writes {
		for _, kind := range []string{"/consumers/", "/oauth2/", "/key-auths/"} {
			if strings.Contains(w, kind) {
				t.Errorf("%s", w)
			}
		}
	}
	r.api(t, "GET", "/consumers/alice", "", 200)
	r.api(t, "GET", "/consumers/other", "", 404)
	if got := r.api(t, "GET", "/plugins", "", 200); strings.Count(got, `"request-termination"`) != 1 {
		t.Error(got)
	}
	if dump := r.must(t, "dump", "--skip-consumers"); strings.Contains(dump, "alice") || !strings.Contains(dump, "only") {
		t.Error(dump)
	}
}

// TestCertificates: certificates are matched by what they are, their server names move with
// them, and no private key is shown.
func TestCertificates(t *testing.T) {
	cert, key := pair(t)
	indent := func(text string) string {
		return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	}
	text := "certificates:\n- cert: |\n" + indent(cert) + "  key: |\n" + indent(key) + "  snis: [a.example, B.example]\n"
	r := newRig(t, "")
	f := file(t, text)
	out := r.must(t, "sync", f)
	if !strings.Contains(out, "creating sni a.example\n") || strings.Contains(out, "PRIVATE KEY") {
		t.Error(out)
	}
	if out, code := r.run(t, "diff", f, "--non-zero-exit-code", "--json-output"); code != 0 || strings.Contains(out, "PRIVATE KEY") {
		t.Errorf("%d %s", code, out)
	}
	dump := r.must(t, "dump")
	other := newRig(t, "")
	if out := other.must(t, "sync", file(t, dump)); !strings.Contains(out, "Created: 3\n") {
		t.Error(out)
	}
	if again := other.must(t, "dump"); again != dump {
		t.Errorf("%s\n%s", dump, again)
	}
	if asked, _ := other.run(t, "diff", file(t, "certificates: []\n"), "--json-output"); strings.Contains(asked, "PRIVATE KEY") || !strings.Contains(asked, Masked) {
		t.Error(asked)
	}
}

func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a.example"}, DNSNames: []string{"a.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// TestPacer: only a run that lasts says how far it is, and not at every step.
func TestPacer(t *testing.T) {
	now := time.Unix(0, 0)
	var told []int
	p := newPacer(func() time.Time { return now }, 3*time.Second, func(done, _ int) { told = append(told, done) })
	for i := 1; i <= 100; i++ {
		now = now.Add(100 * time.Millisecond)
		p.progress(i, 100)
	}
	if len(told) != 3 || told[0] != 30 || told[2] != 90 {
		t.Errorf("%v", told)
	}
}

// TestColours: they are for terminals, and what comes from a file controls none.
func TestColours(t *testing.T) {
	op := &Op{Action: Deleting, Label: "service a\x1b[2J"}
	var out bytes.Buffer
	p := newPrinter(&out, false)
	p.op(op)
	if got := out.String(); got != "deleting service a?[2J\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	p.colour = true
	p.op(op)
	if got := out.String(); got != "\x1b[31mdeleting service a?[2J\x1b[0m\n" {
		t.Errorf("%q", got)
	}
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	terminal, device := open("/dev/ptmx"), open(os.DevNull) // both are character devices
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if newPrinter(device, false).colour {
		t.Error("colours on a device that is no terminal")
	}
	if !newPrinter(terminal, false).colour {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if newPrinter(terminal, false).colour {
		t.Error("colours, although NO_COLOR is set")
	}
}

// TestOutputFile: a file is only replaced if somebody says so, and is for its owner alone.
func TestOutputFile(t *testing.T) {
	r := newRig(t, "")
	name := filepath.Join(t.TempDir(), "out.yaml")
	r.must(t, "dump", "-o", name)
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	r.must(t, "sync", file(t, "consumers:\n- username: a\n"))
	for answer, want := range map[string]int{"": 1, "no\n": 1, "yes\n": 0} {
		before := read(t, name)
		r.command = GatewayCommand()
		r.command.SetIn(strings.NewReader(answer))
		out, code := r.run(t, "dump", "-o", name)
		if code != want || !strings.Contains(out, "already exists") || (want == 1) != (read(t, name) == before) && answer != "yes\n" {
			t.Errorf("%q: %d %s", answer, code, out)
		}
	}
	if !strings.Contains(read(t, name), "username: a") {
		t.Error(read(t, name))
	}
}

// TestHeaders: headers of the user are sent with every request.
func TestHeaders(t *testing.T) {
	r := newRig(t, "")
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("X-Team") == "a b" {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	if out, code := r.run(t, "dump"); code != 1 {
		t.Error(out)
	}
	r.must(t, "dump", "--headers", "x-team: a b")
}
