package agent

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/xds/alarm"
)

// tokenAt returns a token with what a renewal reads of it: when it was issued and when it
// ends.
func tokenAt(from time.Time, life time.Duration) string {
	body := fmt.Sprintf(`{"iat":%d,"exp":%d}`, from.Unix(), from.Add(life).Unix())
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(body)) + ".s"
}

// renewing runs a renewal of a token of 30 days in virtual time.
func renewing(t *testing.T, renew func(context.Context, string) (string, error), then func(file string, start time.Time)) {
	t.Helper()
	renewingBy(t, time.Now, renew, then)
}

// renewingBy does so with another clock.
func renewingBy(t *testing.T, now func() time.Time, renew func(context.Context, string) (string, error), then func(file string, start time.Time)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file, start := filepath.Join(dir, "token"), time.Now()
		if err := os.WriteFile(file, []byte(tokenAt(start, 30*24*time.Hour)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		n := &renewal{renew: renew, now: now, again: func() {}, Agent: &Agent{
			renewNow: make(chan struct{}, 1), conditions: newConditions(slog.New(slog.DiscardHandler)),
			Options: Options{Name: "gw", ControlPlane: "default", TokenFile: file, Log: slog.New(slog.DiscardHandler)},
		}}
		runRenewal(t, n, func() { then(file, start) })
	})
}

// runRenewal runs a renewal while then runs.
func runRenewal(t *testing.T, n *renewal, then func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { n.run(ctx); close(done) }()
	then()
	cancel()
	<-done
}

// TestTokenRenewedWhenAsked: agents of both kinds take a new token as soon as the control
// plane asks them to, store it, and present it. A sidecar's token is never renewed without
// a request.
func TestTokenRenewedWhenAsked(t *testing.T) {
	for name, sidecar := range map[string]*Sidecar{"gateway": nil, "sidecar": {Mesh: "m"}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				file := filepath.Join(dir, "token")
				if err := os.WriteFile(file, []byte(tokenAt(time.Now(), time.Hour)), 0o600); err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				var shown []string
				tries := 0
				a := &Agent{renewNow: make(chan struct{}, 1), conditions: newConditions(slog.New(slog.DiscardHandler)), Options: Options{Name: "n", Sidecar: sidecar, TokenFile: file, Log: slog.New(slog.DiscardHandler)}}
				n := &renewal{Agent: a, now: time.Now, renew: func(_ context.Context, token string) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					if tries++; tries == 1 {
						return "", errors.New("the control plane is away")
					}
					return tokenAt(time.Now(), time.Hour) + "new", nil
				}, again: func() {
					raw, _ := os.ReadFile(file)
					mu.Lock()
					defer mu.Unlock()
					shown = append(shown, string(raw))
				}}
				runRenewal(t, n, func() {
					synctest.Wait()
					if _, err := a.fetch(t.Context(), adminlink.RenewPath); err != nil {
						t.Error(err)
					}
					time.Sleep(2 * renewFirst)
					synctest.Wait()
					mu.Lock()
					if len(shown) != 1 || !strings.HasSuffix(shown[0], "new") || tries != 2 {
						t.Errorf("after %d tries %q was shown", tries, shown)
					}
					mu.Unlock()
					time.Sleep(30 * 24 * time.Hour)
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					if renewed := tries > 2; renewed != (sidecar == nil) {
						t.Errorf("renewed without being asked: %t", renewed)
					}
				})
			})
		})
	}
}

// TestForeignTokenFileWhenAsked: the token that the file's provider puts there is
// presented, and the file is not replaced.
func TestForeignTokenFileWhenAsked(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(dir, "token")
		target := file + ".real"
		if err := errors.Join(os.WriteFile(target, []byte("a.b.c"), 0o600), os.Symlink(target, file)); err != nil {
			t.Fatal(err)
		}
		var shown atomic.Int32
		a := &Agent{renewNow: make(chan struct{}, 1), conditions: newConditions(slog.New(slog.DiscardHandler)), Options: Options{Name: "n", Sidecar: &Sidecar{Mesh: "m"}, TokenFile: file, Log: slog.New(slog.DiscardHandler)}}
		n := &renewal{Agent: a, now: time.Now, again: func() { shown.Add(1) }, renew: func(context.Context, string) (string, error) {
			t.Error("a token was asked for that could not be stored")
			return "", errors.New("no")
		}}
		runRenewal(t, n, func() {
			a.askedToRenew()
			time.Sleep(time.Minute)
			synctest.Wait()
			if err := os.WriteFile(target, []byte("d.e.f"), 0o600); err != nil || shown.Load() != 0 {
				t.Errorf("shown %d times, %v", shown.Load(), err)
			}
			time.Sleep(renewMax)
			synctest.Wait()
			if shown.Load() != 1 {
				t.Errorf("the token of the provider was shown %d times", shown.Load())
			}
		})
	})
}

// TestTokenRenewedInTime: the successor is in the file after two thirds of the life and
// never later than the end, even if the first attempts fail. The same holds for the
// successor's own successor.
func TestTokenRenewedInTime(t *testing.T) {
	var asked atomic.Int32
	renewing(t, func(context.Context, string) (string, error) {
		if asked.Add(1) <= 3 {
			return "", errors.New("the control plane is away")
		}
		return tokenAt(time.Now(), 30*24*time.Hour), nil
	}, func(file string, start time.Time) {
		read := func() string {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			return string(raw)
		}
		before := read()
		time.Sleep(20*24*time.Hour - time.Second)
		synctest.Wait()
		if asked.Load() != 0 || read() != before {
			t.Errorf("asked %d times before it is due", asked.Load())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked.Load() != 4 || read() == before {
			t.Errorf("asked %d times", asked.Load())
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		time.Sleep(20*24*time.Hour + time.Minute)
		synctest.Wait()
		if asked.Load() != 5 {
			t.Errorf("asked %d times: the successor has no successor", asked.Load())
		}
	})
}

// TestForeignTokenFile: a link belongs to the provider of the token. What the provider puts
// there is used.
func TestForeignTokenFile(t *testing.T) {
	var asked atomic.Int32
	renewing(t, func(context.Context, string) (string, error) { asked.Add(1); return "", nil }, func(file string, start time.Time) {
		target := file + ".real"
		if err := errors.Join(os.Rename(file, target), os.Symlink(target, file)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * 24 * time.Hour)
		if err := os.WriteFile(target, []byte(tokenAt(time.Now(), 30*24*time.Hour)), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * 24 * time.Hour)
		synctest.Wait()
		if info, err := os.Lstat(file); err != nil || info.Mode().IsRegular() || asked.Load() != 0 {
			t.Errorf("the link was replaced: %v, asked %d times", err, asked.Load())
		}
	})
}

// TestTokenRenewedAfterSleep: a host that slept, or whose clock was wrong, renews the token
// soon after it wakes. Timers count only the time that it was awake.
func TestTokenRenewedAfterSleep(t *testing.T) {
	var slept atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	asked := make(chan time.Time, 10)
	renewingBy(t, now, func(context.Context, string) (string, error) {
		asked <- now()
		return tokenAt(now(), 30*24*time.Hour), nil
	}, func(string, time.Time) {
		synctest.Wait()
		slept.Store(int64(25 * 24 * time.Hour))
		time.Sleep(alarm.Slice)
		synctest.Wait()
		if len(asked) != 1 {
			t.Errorf("asked %d times after the sleep", len(asked))
		}
	})
}
