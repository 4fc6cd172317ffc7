package scrape

import (
	"bytes"
	"slices"
	"strings"
)

// Source is what one server has answered.
type Source struct {
	// Name is that of the application.
	Name string
	Text []byte
}

// Report says what became of the lines of a source.
type Report struct {
	// Samples are on the page.
	Samples int
	// Malformed lines are not in order, and Reserved ones have names that applications must not
	// use. Conflicts have a name that the page has already, with another type or for something
	// else. Duplicates are series that the page has already.
	Malformed, Reserved, Conflicts, Duplicates int
}

// The types of Prometheus' text format.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
	summary   = "summary"
	untyped   = "untyped"
)

var kinds = []string{counter, gauge, histogram, summary, untyped}

// own are families that Prometheus itself makes for each page. An application that had them would
// contradict it.
var own = map[string]bool{
	"up": true, "scrape_duration_seconds": true, "scrape_samples_scraped": true, "scrape_samples_post_metric_relabeling": true,
	"scrape_series_added": true, "scrape_timeout_seconds": true, "scrape_sample_limit": true, "scrape_body_size_bytes": true,
}

// isReserved reports whether a name is not for applications: those of Envoy and of this program say
// what a proxy does, and an application could make them say anything.
func isReserved(name []byte) bool {
	return bytes.HasPrefix(name, []byte("envoy_")) || bytes.HasPrefix(name, []byte("meshgate_")) || own[string(name)]
}

// Merge makes one page of what Envoy and the applications have answered, in this order: what comes
// first stands, and later ones join its families where they fit. So the page depends on nothing but
// the arguments. Nobody can use the names in taken. Merge is pure.
func Merge(envoy []byte, applications []Source, taken ...string) (page []byte, ofEnvoy Report, reports []Report) {
	p := &merged{families: map[string]*family{}, claimed: map[string]*family{}, series: map[string]struct{}{}}
	for _, name := range taken {
		p.claim(&family{name: name, kind: gauge})
	}
	ofEnvoy = p.take(envoy, false)
	for _, f := range p.order {
		f.closed = true // what Envoy says is Envoy's alone
	}
	for _, a := range applications {
		reports = append(reports, p.take(a.Text, true))
	}
	return p.text(), ofEnvoy, reports
}

// family is a family of the page.
type family struct {
	name, kind string
	help       []byte
	lines      []byte
	// closed says that nobody else may add to it.
	closed bool
}

// names lists the names of its samples, and its own.
func (f *family) names() []string {
	switch f.kind {
	case histogram:
		return []string{f.name, f.name + "_bucket", f.name + "_sum", f.name + "_count"}
	case summary:
		return []string{f.name, f.name + "_sum", f.name + "_count"}
	}
	return []string{f.name}
}

// merged is a page while it is made.
type merged struct {
	families map[string]*family
	order    []*family
	// claimed are the names of samples, with the families that have them: no sample may belong to
	// two families.
	claimed map[string]*family
	// series are those of applications.
	series map[string]struct{}
}

// claim makes a family, unless one of its names is another's.
func (p *merged) claim(f *family) bool {
	names := f.names()
	if slices.ContainsFunc(names, func(name string) bool { return p.claimed[name] != nil }) {
		return false
	}
	for _, name := range names {
		p.claimed[name] = f
	}
	return true
}

// told is what a source says of a family before its samples.
type told struct {
	kind string
	help []byte
	// of is the family on the page, nil if the family does not fit there. known says that this was
	// looked up.
	of    *family
	known bool
}

// reading is the work on one source.
type reading struct {
	*merged
	told map[string]*told
	// check makes it a source that is not believed.
	check  bool
	report Report
	labels []label
	key    []byte
}

// take adds the lines of a source. If it is not to be believed, names are checked, and each series
// is there once. Envoy repeats none.
func (p *merged) take(text []byte, check bool) Report {
	r := &reading{merged: p, told: map[string]*told{}, check: check}
	for line := range lines(text) {
		if line[0] == '#' {
			r.comment(line)
		}
	}
	for line := range lines(text) {
		if line[0] != '#' {
			r.sample(line)
		}
	}
	return r.report
}

// lines yields the lines of a text that are not empty.
func lines(text []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			line, rest, _ := bytes.Cut(text, []byte{'\n'})
			if text = rest; len(line) > 0 && !yield(line) {
				return
			}
		}
	}
}

// comment notes what a source says about a family. What it says first counts.
func (r *reading) comment(line []byte) {
	what, name, text := parseComment(line)
	if what == "" {
		return
	}
	t := r.told[string(name)]
	if t == nil {
		t = &told{}
		r.told[string(name)] = t
	}
	switch {
	case what == "HELP":
		if t.help == nil && isHelp(text) {
			t.help = text
		}
	case t.kind == "" && slices.Contains(kinds, string(text)):
		t.kind = string(text)
	default:
		r.report.Malformed++
	}
}

func (r *reading) sample(line []byte) {
	s, ok := parseSample(line, r.labels)
	if !ok {
		r.report.Malformed++
		return
	}
	r.labels = s.labels
	name, t := r.belongs(s.name)
	switch {
	case !fits(&s, t.kind, name):
		r.report.Malformed++
	case r.check && (isReserved(s.name) || isReserved([]byte(name))):
		r.report.Reserved++
	default:
		r.add(&s, name, t)
	}
}

// add adds a sample that is in order to its family.
func (r *reading) add(s *sample, name string, t *told) {
	switch f := r.familyOf(name, t); {
	case f == nil:
		r.report.Conflicts++
	case r.check && r.repeated(s, t.kind):
		r.report.Duplicates++
	default:
		f.lines = s.appendTo(f.lines)
		r.report.Samples++
	}
}

// belongs returns the family of a sample, as the source says.
func (r *reading) belongs(sample []byte) (name string, t *told) {
	if t := r.told[string(sample)]; t != nil && t.kind != "" {
		return string(sample), t
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, is := bytes.CutSuffix(sample, []byte(suffix))
		if !is {
			continue
		}
		if t := r.told[string(base)]; t != nil && (t.kind == histogram || t.kind == summary && suffix != "_bucket") {
			return string(base), t
		}
	}
	t = r.told[string(sample)]
	if t == nil {
		t = &told{}
		r.told[string(sample)] = t
	}
	t.kind = untyped
	return string(sample), t
}

// fits reports whether a sample can be one of its family: those of histograms and summaries are
// told apart by suffixes and numbers. Sums and counts have no such number: some parsers read one
// there, too, and stop if it is none.
func fits(s *sample, kind, family string) bool {
	suffix := strings.TrimPrefix(string(s.name), family)
	switch {
	case kind == histogram && suffix == "_bucket":
		_, _, ok := s.bound("le")
		return ok
	case kind == histogram:
		_, has, _ := s.bound("le")
		return suffix != "" && !has
	case kind == summary && suffix == "":
		_, _, ok := s.bound("quantile")
		return ok
	case kind == summary:
		_, has, _ := s.bound("quantile")
		return !has
	}
	return true
}

// familyOf returns the family of the page to which a source may add its samples of a family, nil if
// it may not.
func (r *reading) familyOf(name string, t *told) *family {
	if t.known {
		return t.of
	}
	t.known = true
	if is := r.families[name]; is != nil {
		if !is.closed && is.kind == t.kind {
			t.of = is
		}
		return t.of
	}
	f := &family{name: name, kind: t.kind, help: t.help}
	if r.claim(f) {
		t.of, r.families[name] = f, f
		r.order = append(r.order, f)
	}
	return t.of
}

// repeated notes a series and reports whether it was there before. Prometheus tells the numbers of
// histograms and summaries apart by their values.
func (r *reading) repeated(s *sample, kind string) bool {
	r.key = s.appendSeries(r.key[:0])
	if name := map[string]string{histogram: "le", summary: "quantile"}[kind]; name != "" {
		if f, _, ok := s.bound(name); ok {
			r.key = r.key[:0]
			r.key = append(append(r.key, s.name...), '{')
			for _, l := range s.labels {
				if string(l.name) != name {
					r.key = append(append(append(append(r.key, l.name...), '='), l.value...), '"')
				}
			}
			r.key = appendFloat(append(r.key, '}'), f)
		}
	}
	if _, is := r.series[string(r.key)]; is {
		return true
	}
	r.series[string(r.key)] = struct{}{}
	return false
}

// text writes the families that have samples.
func (p *merged) text() []byte {
	n := 0
	for _, f := range p.order {
		n += len(f.lines) + len(f.help) + 2*len(f.name) + 32
	}
	out := make([]byte, 0, n)
	for _, f := range p.order {
		if len(f.lines) > 0 {
			out = append(appendHead(out, f.name, f.kind, f.help), f.lines...)
		}
	}
	return out
}

func appendHead(out []byte, name, kind string, help []byte) []byte {
	if help != nil {
		out = append(append(append(append(append(out, "# HELP "...), name...), ' '), help...), '\n')
	}
	return append(append(append(append(append(out, "# TYPE "...), name...), ' '), kind...), '\n')
}
