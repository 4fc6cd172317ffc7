package tokencache

import (
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

func writeSettings(t *testing.T, path string, s *contract.Settings) {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, data)
}

// writeFile replaces a file as the agent does: by renaming.
func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Changed settings are used at once, damaged ones never, and what the change
// does not concern stays.
func TestSettingsAreReadAgainWhenTheyChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	settings := func(url string, ttl int64) *contract.Settings {
		return &contract.Settings{
			Redis: &contract.RedisSettings{URL: url}, Scopes: testScopes.Members,
			Cache: contract.CacheSettings{MaxBytes: 1 << 20, NegativeTTL: ttl},
		}
	}
	writeSettings(t, path, settings("redis://first", 0))
	opened, events := make(chan string, 8), make(chan string, 64)
	first := &fakeStore{values: map[string][]byte{}}
	second := &fakeStore{values: map[string][]byte{}}
	second.putRecord(t, 1, testRecord(1, 5))
	c, err := Open(Options{
		Path: path, Logger: slog.New(messages(events)),
		openStore: func(s *contract.RedisSettings, _ []string) (store, error) {
			opened <- s.URL
			if s.URL == "redis://first" {
				return first, nil
			}
			return second, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := <-opened; got != "redis://first" {
		t.Fatalf("opened %s", got)
	}
	if got := ask(t, c, 1); got != contract.Unknown {
		t.Errorf("first redis: %d", got)
	}
	await := func(want string) {
		t.Helper()
		for timeout := time.After(patience); ; {
			select {
			case got := <-events:
				if got == want {
					return
				}
			case <-timeout:
				t.Fatalf("no message %q", want)
			}
		}
	}
	writeFile(t, path, []byte(`{"redis":`))
	await("changed settings are not used")
	if got := ask(t, c, 1); got != contract.Unknown {
		t.Errorf("after damaged settings: %d", got)
	}
	writeSettings(t, path, settings("redis://second", 0))
	await("settings changed")
	if got := <-opened; got != "redis://second" {
		t.Errorf("opened %s", got)
	}
	if got := ask(t, c, 1); got != contract.Found {
		t.Errorf("second redis: %d", got)
	}
	writeSettings(t, path, settings("redis://second", 1000))
	await("settings changed")
	if len(opened) != 0 {
		t.Error("a change that does not concern redis opened it again")
	}
	if got := c.config.Load().negativeTTL; got != time.Second {
		t.Errorf("negative ttl %v", got)
	}
}

// A change of the control plane's address moves the link, over real TLS.
func TestSettingsMoveTheLink(t *testing.T) {
	dir := t.TempDir()
	cert, ca := testCertificate(t, dir)
	listen := func() (*fakeControl, string, func()) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		control := &fakeControl{t: t, cert: cert, links: make(chan *fakeLink, 8), auto: true}
		token := "secret"
		control.token.Store(&token)
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				control.serve(conn)
			}
		}()
		return control, l.Addr().String(), func() { _ = l.Close(); <-served }
	}
	oldControl, oldAddress, stopOld := listen()
	newControl, newAddress, stopNew := listen()
	path, token := filepath.Join(dir, "settings.json"), filepath.Join(dir, "token")
	writeFile(t, token, []byte("secret"))
	settings := func(address string) *contract.Settings {
		return &contract.Settings{ControlPlane: &contract.ControlPlaneSettings{
			Address: address, CAFile: ca, TokenFile: token, Node: "cp/default/1",
		}, Cache: contract.CacheSettings{MaxBytes: 1 << 20}}
	}
	writeSettings(t, path, settings(oldAddress))
	c, err := Open(Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer stopNew()
	defer stopOld()
	defer c.Close()
	first := oldControl.accept()
	first.welcome()
	writeSettings(t, path, settings(newAddress))
	first.expect(contract.FrameBye)
	second := newControl.accept()
	second.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2"})
	second.invalidate(1, tokenGone(1, 9))
	second.expectAck(1)
	if got := c.Stats(); got.Log != "log-2" || got.Applied != 1 || got.LinkConnects != 2 {
		t.Errorf("%+v", got)
	}
}
