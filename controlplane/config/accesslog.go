package config

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// AccessLog says what gateways log of each request, and what sidecars log of requests that
// they refuse or cannot deliver. The control plane decides for all its proxies whether they
// log, in which format, which share, and to which collector. The process that runs a proxy
// decides where the file is, and how it is rotated.
type AccessLog struct {
	Enabled bool    `koanf:"enabled"`
	Path    string  `koanf:"path"`
	Format  string  `koanf:"format"`
	Sample  float64 `koanf:"sample"`
	MaxSize int64   `koanf:"maxSize"`
	Keep    int     `koanf:"keep"`
	OTLP    OTLP    `koanf:"otlp"`
	Dir     string  `koanf:"dir"`
}

// OTLP is a collector.
type OTLP struct {
	Endpoint string `koanf:"endpoint"`
}

// minLog is the smallest size at which a log may be rotated. With a smaller one, entries
// would be gone before anybody could read them.
const minLog = 64 << 10

// accessLogKeys are the rows of [Table] for [AccessLog].
var accessLogKeys = []Key{
	{"accessLog.enabled", true, "log each request of the gateways, and those that sidecars refuse or cannot deliver (docs/operations/access-log.md)", false},
	{"accessLog.path", "", "file on the proxy's machine; empty: standard output of meshgate standalone or dataplane; demo: access.log in the state directory", false},
	{"accessLog.format", "", "JSON object whose values are Envoy's command operators; empty: the default format; what could show a credential is refused", false},
	{"accessLog.sample", 1.0, "share of successful requests (2xx) that is logged, from 0 to 1; everything else always is", false},
	{"accessLog.maxSize", 100 << 20, "bytes at which the file is put aside as path.1, path.2, ...", false},
	{"accessLog.keep", 5, "how many of those files are kept", false},
	{"accessLog.dir", "", "comma-separated directories of a sidecar's machine below which files of the mesh's access logs may be (docs/mesh.md); empty: access-logs in the proxy's run directory", false},
	{"accessLog.otlp.endpoint", "", "http://host:port or https://host:port of a collector that gets the log over OTLP/gRPC, too; empty: none", false},
}

// Directories returns the absolute paths of accessLog.dir.
func (a *AccessLog) Directories() (out []string, err error) {
	for dir := range strings.SplitSeq(a.Dir, ",") {
		if dir = strings.TrimSpace(dir); dir == "" {
			continue
		}
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		out = append(out, dir)
	}
	return out, nil
}

// check reports values of the access log that cannot work. The format is checked by the
// package that understands it.
func (a *AccessLog) check() (vs []fault.Violation) {
	bad := func(name, message string) {
		vs = append(vs, fault.Violation{Path: "accessLog." + name, Message: message})
	}
	if !(a.Sample >= 0 && a.Sample <= 1) {
		bad("sample", "must be between 0 and 1")
	}
	if a.MaxSize < minLog {
		bad("maxSize", "must be at least 65536")
	}
	if a.Keep < 1 {
		bad("keep", "must be at least 1")
	}
	if a.OTLP.Endpoint != "" && !isEndpoint(a.OTLP.Endpoint) {
		bad("otlp.endpoint", "must be http://host:port or https://host:port")
	}
	return vs
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
		return false
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}
