package attacker_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/e2e/framework"
)

// What an attack may leave behind and what it may take meanwhile. It opens thousands of
// connections and sends some hundred megabytes, so what is kept for each of them, or of what
// they send, shows. Without a mistake it leaves up to 13 MiB, and takes up to 32 MiB, even if
// it is three times as long as usual.
const (
	// leftGoroutines is a few idle connections of the test itself, and timers; leftFiles
	// the same connections, and files of the database.
	leftGoroutines = 30
	leftFiles      = 30
	leftBytes      = 32 << 20
	peakBytes      = 96 << 20
)

// size is how large a process is.
type size struct {
	// files are open: connections, too.
	goroutines, files int
	// now and peak are bytes of resident memory.
	now, peak int
}

// measure reads the size of a control plane.
func measure(pid, diagnostics int) (s size, err error) {
	page, err := framework.Page(diagnostics)
	if err != nil {
		return s, err
	}
	m, err := framework.ParseMetrics(page.Body)
	if err != nil {
		return s, err
	}
	s.goroutines = int(m.Sum("go_goroutines"))
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.files = len(files)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		name, text, _ := strings.Cut(line, ":")
		var kilobytes int
		if into, ok := map[string]*int{"VmRSS": &s.now, "VmHWM": &s.peak}[name]; ok {
			if _, err := fmt.Sscan(text, &kilobytes); err != nil {
				return s, err
			}
			*into = kilobytes << 10
		}
	}
	if s.goroutines == 0 || s.files == 0 || s.now == 0 || s.peak == 0 {
		return s, errors.New("the process does not say how large it is")
	}
	return s, nil
}

// since says what has grown too much since an earlier measurement, or nil.
func (s size) since(before size) error {
	var errs []error
	for _, x := range []struct {
		what                 string
		before, after, bound int
	}{
		{"goroutines are left", before.goroutines, s.goroutines, leftGoroutines},
		{"files are left open", before.files, s.files, leftFiles},
		{"bytes of memory are left", before.now, s.now, leftBytes},
		{"bytes of memory were needed", before.now, s.peak, peakBytes},
	} {
		if x.after-x.before > x.bound {
			errs = append(errs, fmt.Errorf("%d more %s than before (%d); %d are allowed", x.after-x.before, x.what, x.before, x.bound))
		}
	}
	return errors.Join(errs...)
}

// TestGrowthIsSeen: each of the bounds is one.
func TestGrowthIsSeen(t *testing.T) {
	before := size{goroutines: 100, now: 80 << 20, peak: 90 << 20}
	for name, c := range map[string]struct {
		after size
		good  bool
	}{
		"the same":            {before, true},
		"smaller":             {size{goroutines: 90, now: 70 << 20, peak: 90 << 20}, true},
		"within":              {size{goroutines: 110, files: 20, now: 100 << 20, peak: 170 << 20}, true},
		"goroutines":          {size{goroutines: 100 + leftGoroutines + 1, now: 80 << 20, peak: 90 << 20}, false},
		"files":               {size{goroutines: 100, files: leftFiles + 1, now: 80 << 20, peak: 90 << 20}, false},
		"memory that left":    {size{goroutines: 100, now: 80 << 20, peak: 80<<20 + peakBytes + 1}, false},
		"memory that is left": {size{goroutines: 100, now: 80<<20 + leftBytes + 1, peak: 80<<20 + leftBytes + 1}, false},
	} {
		if err := c.after.since(before); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
