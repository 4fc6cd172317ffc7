package telemetry

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errTooLarge says that the statistics are larger than a scrape may be.
var errTooLarge = errors.New("the statistics are larger than a scrape may be")

// maxLine bounds one line: a name and its labels.
const maxLine = 64 << 10

// page is a text in Prometheus' text format 0.0.4 that is known to be valid: each family
// occurs once, with all its lines together below its type.
type page struct {
	text bytes.Buffer
	// dropped counts the lines that were left out.
	dropped int
}

// newPage reads a text of at most limit bytes. It leaves out the second occurrence of a
// family, families that taken reports as used elsewhere, and lines that do not belong to the
// family above them, because one bad line would invalidate the whole scrape.
func newPage(r io.Reader, limit int64, taken func(family string) bool) (*page, error) {
	limited := &io.LimitedReader{R: r, N: limit + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 4<<10), maxLine)
	p, seen, current := &page{}, map[string]bool{}, ""
	for lines.Scan() {
		line := lines.Bytes()
		switch {
		case len(bytes.TrimSpace(line)) == 0:
			continue
		case line[0] == '#':
			name, kind, ok := typeOf(line)
			if !ok {
				continue // a text for people
			}
			current = ""
			if seen[name] || taken(name) {
				p.dropped++
				continue
			}
			seen[name], current = true, name
			fmt.Fprintf(&p.text, "# TYPE %s %s\n", name, kind)
		case current != "" && belongs(line, current):
			p.text.Write(line)
			p.text.WriteByte('\n')
		default:
			p.dropped++
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read statistics: %w", err)
	}
	if limited.N == 0 {
		return nil, errTooLarge
	}
	return p, nil
}

// typeOf parses the line that begins a family.
func typeOf(line []byte) (name, kind string, ok bool) {
	words := strings.Fields(string(line))
	if len(words) != 4 || words[0] != "#" || words[1] != "TYPE" {
		return "", "", false
	}
	return words[2], words[3], true
}

// belongs reports whether a sample belongs to a family.
func belongs(line []byte, family string) bool {
	end := bytes.IndexAny(line, "{ ")
	if end < 0 {
		return false
	}
	rest, ok := bytes.CutPrefix(line[:end], []byte(family))
	switch string(rest) {
	case "", "_bucket", "_sum", "_count":
		return ok
	}
	return false
}
