package faults_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// writer creates consumers until it is stopped, and remembers those whose creation was
// answered.
type writer struct {
	mu    sync.Mutex
	names []string
	stop  chan struct{}
	done  sync.WaitGroup
	more  chan struct{}
}

// write starts workers that write.
func write(f *framework.Fixture, workers int) *writer {
	w := &writer{stop: make(chan struct{}), more: make(chan struct{}, 1)}
	for i := range workers {
		w.done.Go(func() {
			defer GinkgoRecover()
			for n := 0; ; n++ {
				select {
				case <-w.stop:
					return
				default:
				}
				name := fmt.Sprintf("w%d-%d", i, n)
				Expect(f.Admin(http.MethodPost, "/consumers", map[string]any{"username": name}).Status).To(Equal(201))
				w.mu.Lock()
				w.names = append(w.names, name)
				w.mu.Unlock()
				select {
				case w.more <- struct{}{}:
				default:
				}
			}
		})
	}
	return w
}

// answered are the names so far.
func (w *writer) answered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.names...)
}

// program runs another command of the program to its end.
func program(args ...string) string {
	p := framework.Start(nil, framework.Binary(), args...)
	Expect(p.Exit(time.Minute)).To(Equal(0), p.Output())
	return p.Output()
}

var _ = Describe("a backup", func() {
	It("of a control plane under load takes its place, with everything that was answered before", func() {
		redis := framework.StartRedis()
		c := framework.NewControlPlane("run", append(redis.Flags(), "--backup-every", "1h")...).Start()
		a := framework.StartGateway(c, "a")
		f := framework.NewFixture(c)
		revoked, kept := f.MustMint(a.HTTPS), f.MustMint(a.HTTPS)
		for _, token := range []string{revoked, kept} {
			Expect(f.Status(a.HTTP, token)).To(Equal(200))
		}
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+revoked, nil)
		w := write(f, 4)
		for len(w.answered()) < 50 {
			Eventually(w.more, soon).Should(Receive())
		}

		Eventually(func() ([]string, error) {
			return filepath.Glob(filepath.Join(c.StateDir, "backups", "meshgate-*.backup"))
		}, soon, often).
			Should(HaveLen(1), "the first of the schedule")
		Eventually(func() string {
			r, err := framework.Page(c.Diagnostics)
			Expect(err).NotTo(HaveOccurred())
			return r.Body
		}, soon, often).Should(MatchRegexp(`meshgate_backup_last_success_timestamp_seconds [1-9]`))
		file := filepath.Join(GinkgoT().TempDir(), "b")
		before := w.answered()
		Expect(program("backup", file, "--state-dir", c.StateDir)).To(ContainSubstring("The encryption key is NOT in it"))
		during := len(w.answered())
		close(w.stop)
		w.done.Wait()
		AddReportEntry("writes", fmt.Sprintf("%d before the backup, %d during it", len(before), during-len(before)))
		c.Kill()

		key := filepath.Join(c.StateDir, "encryption.key")
		c.StateDir = filepath.Join(GinkgoT().TempDir(), "restored")
		program("restore", file, "--state-dir", c.StateDir, "--encryption-key-file", key)
		c.Start()
		for _, name := range before {
			f.Must(200, http.MethodGet, "/consumers/"+name, nil)
		}
		Eventually(func() int { return f.Status(a.HTTP, kept) }, soon, often).Should(Equal(200))
		becomesRefused(f, a, revoked)
		Eventually(c.Output, soon, often).Should(ContainSubstring("a new epoch of redis is drawn"))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+kept, nil)
		Expect(f.Status(a.HTTP, kept)).To(Equal(401))
	})
})
