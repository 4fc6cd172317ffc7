package sqlstore_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// childPath names the database that a re-executed test binary writes until it is killed.
const childPath = "SQLSTORE_TEST_CHILD"

// pairs is the number of resources that each transaction of the child writes.
const pairs = 3

// counting notes in a transaction how many there have been of a writer.
func counting(tx store.Tx, writer string, n int) error {
	res := &model.Resource{Kind: storetest.Quiet, Name: writer, Spec: &storetest.Item{Label: strconv.Itoa(n)}}
	_, err := tx.Update(res, 0)
	if fault.Is(err, fault.NotFound) {
		_, err = tx.Create(res)
	}
	return err
}

// child writes, and prints the name of each commit that is acknowledged.
func child(path string) int {
	k, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		return 2
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := sqlstore.Open(context.Background(), sqlstore.Options{Path: path, Kinds: storetest.Kinds(), Sealer: k, Log: log})
	if err != nil {
		log.Error("opening failed", "error", err)
		return 2
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 4 {
		class, kind := model.Config, storetest.Box
		if w%2 == 0 {
			class, kind = model.Credential, storetest.Badge
		}
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%s %d-%d", kind.Name, w, i)
				if _, err := s.Update(context.Background(), class, func(tx store.Tx) error {
					for p := range pairs {
						spec := &storetest.Item{Secret: fmt.Sprint(name, p)}
						if _, err := tx.Create(&model.Resource{Kind: kind, Scope: name, Name: fmt.Sprint(p), Spec: spec}); err != nil {
							return err
						}
					}
					return counting(tx, fmt.Sprintf("%s %d", kind.Name, w), i)
				}); err != nil {
					log.Error("writing failed", "error", err)
					return
				}
				mu.Lock()
				_, _ = fmt.Fprintln(os.Stdout, name)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return 2
}

// TestKill: everything that was acknowledged before kill -9 is there, and nothing is there
// only in part, not even of a row that many transactions change.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		acknowledged = append(acknowledged, lines.Text())
		if len(acknowledged) == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") || len(acknowledged) < 200 {
		t.Fatalf("the child ended with %v after %d commits", err, len(acknowledged))
	}
	o := options(t, path)
	k, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	o.Sealer = k
	s := open(t, o)
	check := func(r store.Reader, name string, least int) error {
		kind := storetest.Box
		if strings.HasPrefix(name, storetest.Badge.Name) {
			kind = storetest.Badge
		}
		n, err := r.Count(kind, store.Query{Scope: name})
		if n != pairs && (n != 0 || least > 0) {
			t.Errorf("%s: %d of %d", name, n, pairs)
		}
		return err
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		last := make(map[string]int)
		for _, name := range acknowledged {
			if err := check(r, name, pairs); err != nil {
				return err
			}
			writer, n, _ := strings.Cut(name, "-")
			var i int
			if _, err := fmt.Sscan(n, &i); err != nil {
				return err
			}
			last[writer] = max(last[writer], i)
		}
		for writer, i := range last { // a commit in flight is complete or absent
			if err := check(r, fmt.Sprintf("%s-%d", writer, i+1), 0); err != nil {
				return err
			}
			if err := counted(t, r, writer, i); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// The feed and the revision agree.
	next := uint64(1)
	for events, err := range s.Watch(t.Context(), 0) {
		if err != nil || len(events) != pairs || events[0].Revision != next {
			t.Fatalf("revision %d: %d events, %v", next, len(events), err)
		}
		if next++; next > s.Revision() {
			break
		}
	}
}

// counted demands that a writer has counted exactly the commits that are there, the last that was
// acknowledged among them.
func counted(t *testing.T, r store.Reader, writer string, acknowledged int) error {
	t.Helper()
	res, err := r.Get(storetest.Quiet, "", writer)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(res.Spec.(*storetest.Item).Label)
	if err != nil {
		return err
	}
	kind := storetest.Box
	if strings.HasPrefix(writer, storetest.Badge.Name) {
		kind = storetest.Badge
	}
	for i, want := range map[int]int{n: pairs, n + 1: 0} {
		got, err := r.Count(kind, store.Query{Scope: fmt.Sprintf("%s-%d", writer, i)})
		if err != nil {
			return err
		}
		if got != want || n < acknowledged {
			t.Errorf("%s has counted %d with %d acknowledged, and has %d rows of %d", writer, n, acknowledged, got, i)
		}
	}
	return nil
}
