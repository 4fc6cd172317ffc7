package mesh

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/xds/reserved"
)

// These are the modes of TLS of a metrics backend. An empty mode means the first.
const (
	metricsMutual   = "activeMTLSBackend"
	metricsDisabled = "disabled"
)

// Bounds of metrics backends.
const (
	maxApplications = 32
	maxMetricsText  = 1024
	maxMetricsName  = 64
)

const (
	textMetrics     = `unknown backend type. Available backends: "prometheus"`
	textMetricsTLS  = "has invalid value. Allowed values: activeMTLSBackend, disabled"
	textMetricsHTTP = "must be http, which is what metrics are served with"
	textObject      = "must be an object"
	textApplication = "has to be an IP address at which an application of the proxy's machine can be: not one of a link, of a group, or of a cloud's metadata"
)

// metricsURLPath matches paths that Envoy compares as they are written.
var metricsURLPath = regexp.MustCompile(`^/[A-Za-z0-9/._~!$&'()*+,;=:@-]*$`)

// Scraping says how the metrics of one proxy are scraped.
type Scraping struct {
	Port uint32
	Path string
	// Tags are those by which policies are chosen for the listener.
	Tags Tags
	// Plain serves without mutual TLS, even if the mesh has it.
	Plain bool `json:",omitempty"`
	// Filter is a regular expression for the names of Envoy's statistics; empty means all.
	// UsedOnly leaves out statistics that Envoy has never changed.
	Filter   string `json:",omitempty"`
	UsedOnly bool   `json:",omitempty"`
	// Applications are ordered by name.
	Applications []Application `json:",omitempty"`
	// Incomplete are the names of applications without a port, which nobody can ask.
	Incomplete []string `json:",omitempty"`
}

// Application is a workload whose metrics are shown beside those of its proxy.
type Application struct {
	Name string
	// Address is an IP address; empty means loopback.
	Address string `json:",omitempty"`
	Port    uint32
	// Path may have a query.
	Path string
}

// Scraping returns how the metrics of a dataplane are scraped: as the enabled backend of the mesh
// says, and where the dataplane says something else, as that says. The result is nil if the mesh
// has no enabled backend. The error says what is wrong with a configuration that was stored when
// less was checked.
func (m *Mesh) Scraping(d *Dataplane) (*Scraping, error) {
	b := m.metricsBackend()
	if b == nil {
		return nil, nil //nolint:nilnil // no scraping is an answer
	}
	conf := b.Conf
	if d.Metrics != nil && d.Metrics.Type == Prometheus {
		conf = overridden(conf, d.Metrics.Conf)
	}
	var vs violations
	s := vs.scraping("conf", conf, merged)
	if len(vs) > 0 {
		return nil, fmt.Errorf("the metrics of the mesh and of the dataplane: %s: %s", vs[0].Path, vs[0].Message)
	}
	return s, nil
}

// metricsBackend returns the enabled backend, or nil.
func (m *Mesh) metricsBackend() *MetricsBackend {
	if m.Metrics == nil || m.Metrics.EnabledBackend == "" {
		return nil
	}
	i := slices.IndexFunc(m.Metrics.Backends, func(b MetricsBackend) bool { return b.Name == m.Metrics.EnabledBackend })
	if i < 0 || m.Metrics.Backends[i].Type != Prometheus {
		return nil
	}
	return &m.Metrics.Backends[i]
}

// overridden puts the configuration of a dataplane over that of the mesh: objects key by key, the
// list of applications by their names. Of the two ways to say that there is no mutual TLS, the
// dataplane's counts.
func overridden(base, over map[string]any) map[string]any {
	out := joined(base, nil)
	if _, skips := over["skipMTLS"]; skips {
		delete(out, "tls")
	}
	if _, says := over["tls"]; says {
		delete(out, "skipMTLS")
	}
	for key, value := range over {
		was, isObject := out[key].(map[string]any)
		object, both := value.(map[string]any)
		switch {
		case isObject && both:
			out[key] = joined(was, object)
		case key == "aggregate":
			out[key] = byName(out[key], value)
		default:
			out[key] = value
		}
	}
	return out
}

// byName puts a list of applications over another one.
func byName(base, over any) []any {
	list, _ := base.([]any)
	more, _ := over.([]any)
	out := slices.Clone(list)
	for _, one := range more {
		object, _ := one.(map[string]any)
		i := slices.IndexFunc(out, func(o any) bool {
			was, _ := o.(map[string]any)
			return text(was, "name") == text(object, "name")
		})
		if i < 0 {
			out = append(out, one)
			continue
		}
		was, _ := out[i].(map[string]any)
		out[i] = joined(was, object)
	}
	return out
}

// joined puts one object over another. Both may be nil: what was stored when less was checked may
// have anything in their place.
func joined(base, over map[string]any) map[string]any {
	out := make(map[string]any, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}

// metrics validates the backends of a mesh.
func (vs *violations) metrics(m *Metrics) {
	if m == nil {
		return
	}
	names := vs.names("metrics.backends", len(m.Backends), func(i int) string { return m.Backends[i].Name })
	for i, b := range m.Backends {
		path := indexed("metrics.backends", i)
		if b.Type != Prometheus {
			vs.add(path+".type", textMetrics)
			continue
		}
		vs.scraping(path+".conf", b.Conf, ofMesh)
	}
	if m.EnabledBackend != "" && !slices.Contains(names, m.EnabledBackend) {
		vs.add("metrics.enabledBackend", textEnabled)
	}
}

// ownMetrics validates what a dataplane says instead of its mesh. What it does not say, the mesh
// does.
func (vs *violations) ownMetrics(b *MetricsBackend) {
	switch {
	case b == nil:
	case b.Type != Prometheus:
		vs.add("metrics.type", textMetrics)
	default:
		vs.scraping("metrics.conf", b.Conf, ofDataplane)
	}
}

// whose is whose configuration is read.
type whose int

const (
	ofMesh whose = iota
	// ofDataplane may lack anything.
	ofDataplane
	// merged is one of both, whose parts were validated when they were written.
	merged
)

// scraping reads a configuration.
func (vs *violations) scraping(path string, conf map[string]any, of whose) *Scraping {
	s, whole := &Scraping{Plain: vs.plain(path, conf)}, of != ofDataplane
	if v, is := conf["port"]; is || whole {
		s.Port = vs.portIn(path+".port", v)
	}
	if _, is := conf["path"]; is || whole {
		s.Path = text(conf, "path")
		if wrong := wrongMetricsPath(s.Path); wrong != "" {
			vs.add(path+".path", wrong)
		}
	}
	if v, is := conf["tags"]; is || whole {
		s.Tags = vs.metricsTags(path+".tags", v, whole)
	}
	envoy := vs.object(path+".envoy", conf["envoy"])
	s.Filter, s.UsedOnly = text(envoy, "filterRegex"), vs.yesNo(path+".envoy.usedOnly", envoy["usedOnly"], false)
	if of != merged { // it is read for each proxy
		if _, err := regexp.Compile(s.Filter); err != nil {
			vs.add(path+".envoy.filterRegex", "provided regexp isn't correct: "+err.Error())
		}
	}
	vs.metricsText(path+".envoy.filterRegex", s.Filter)
	vs.applications(path+".aggregate", conf["aggregate"], s)
	return s
}

// plain reports whether there is no mutual TLS.
func (vs *violations) plain(path string, conf map[string]any) bool {
	skip, skips := conf["skipMTLS"]
	tls := vs.object(path+".tls", conf["tls"])
	if skips && len(tls) > 0 {
		vs.add(path, "skipMTLS and tls configuration cannot be defined together")
	}
	mode, is := tls["mode"]
	switch mode {
	case metricsDisabled:
		return true
	case nil, "", metricsMutual:
		if is && mode == nil {
			vs.add(path+".tls.mode", textMetricsTLS)
		}
	default:
		vs.add(path+".tls.mode", textMetricsTLS)
	}
	return vs.yesNo(path+".skipMTLS", skip, false)
}

func (vs *violations) metricsTags(path string, v any, whole bool) Tags {
	tags := Tags{}
	object := vs.object(path, v)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		s, is := object[key].(string)
		if !is {
			vs.add(keyed(path, key), "must be a text")
		}
		tags[key] = s
	}
	if whole && tags.Service() == "" {
		vs.add(path, textServiceTag)
	}
	if p, is := tags[TagProtocol]; is && p != ProtocolHTTP {
		vs.add(keyed(path, TagProtocol), textMetricsHTTP)
	}
	vs.join(ValidateTags(path, tags))
	return tags
}

// applications reads the list of applications. Those that are not enabled are only checked.
func (vs *violations) applications(path string, v any, into *Scraping) {
	list, is := v.([]any)
	if v != nil && !is {
		vs.add(path, "must be a list")
	}
	if len(list) > maxApplications {
		vs.add(path, fmt.Sprintf("must not have more than %d elements", maxApplications))
		return
	}
	var names []string
	for i, v := range list {
		at := indexed(path, i)
		entry := vs.object(at, v)
		a := vs.application(at, entry)
		if slices.Contains(names, a.Name) {
			vs.add(at+".name", "duplicate entry: "+a.Name+", values have to be unique")
		}
		names = append(names, a.Name)
		switch enabled := vs.yesNo(at+".enabled", entry["enabled"], true); {
		case !enabled:
		case a.Port == 0:
			into.Incomplete = append(into.Incomplete, a.Name)
		default:
			into.Applications = append(into.Applications, a)
		}
	}
	slices.SortFunc(into.Applications, func(a, b Application) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(into.Incomplete)
}

func (vs *violations) application(at string, entry map[string]any) Application {
	a := Application{Name: text(entry, "name"), Address: text(entry, "address"), Path: or(text(entry, "path"), metricsPath)}
	if a.Name == "" {
		vs.add(at+".name", textEmpty)
	} else if len(a.Name) > maxMetricsName {
		vs.add(at+".name", fmt.Sprintf("must not be longer than %d bytes", maxMetricsName))
	}
	vs.metricsText(at+".name", a.Name)
	if v, is := entry["port"]; is {
		a.Port = vs.portIn(at+".port", v)
	}
	u, err := url.ParseRequestURI(a.Path)
	if err != nil || !strings.HasPrefix(a.Path, "/") || u.Host != "" || strings.ContainsAny(a.Path, "# ") {
		vs.add(at+".path", textProbe)
	}
	vs.metricsText(at+".path", a.Path)
	if a.Address != "" {
		ip, err := netip.ParseAddr(a.Address)
		if err != nil || ip.Zone() != "" || !ip.IsLoopback() && !hostname.IsElsewhere(ip) {
			vs.add(at+".address", textApplication)
		}
	}
	return a
}

// wrongMetricsPath says what is wrong with the path at which metrics are shown. Envoy normalizes
// the paths of requests, so others are never asked for.
func wrongMetricsPath(p string) string {
	clean := path.Clean(p)
	if !metricsURLPath.MatchString(p) || p != clean && p != clean+"/" || len(p) > maxMetricsText {
		return textProbe
	}
	return ""
}

// metricsText checks a text that reaches proxies as it is.
func (vs *violations) metricsText(path, s string) {
	switch {
	case len(s) > maxMetricsText:
		vs.add(path, fmt.Sprintf("must not be longer than %d bytes", maxMetricsText))
	case strings.ContainsFunc(s, unicode.IsControl):
		vs.add(path, "must have no control characters")
	}
	// It travels in one text with others, which may have percent signs before it.
	if wrong := reserved.Wrong("% " + s); wrong != "" {
		vs.add(path, wrong)
	}
}

// object reads a part of a free configuration that may be left out.
func (vs *violations) object(path string, v any) map[string]any {
	object, is := v.(map[string]any)
	if v != nil && !is {
		vs.add(path, textObject)
	}
	return object
}

// yesNo reads a boolean that may be left out.
func (vs *violations) yesNo(path string, v any, otherwise bool) bool {
	yes, is := v.(bool)
	if v == nil {
		return otherwise
	}
	if !is {
		vs.add(path, textBoolean)
	}
	return yes
}

func (vs *violations) portIn(path string, v any) uint32 {
	port, ok := number(v)
	if !ok || port < 1 || port > 65535 {
		vs.add(path, textPort)
		return 0
	}
	return uint32(port)
}
