package config

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
)

// Config is the effective configuration. Field tags are keys; nested structs make dotted
// keys. Every leaf has a row in [Table].
type Config struct {
	StateDir   string `koanf:"stateDir"`
	ModulePath string `koanf:"modulePath"`
	// Mode and Environment say which resources can be written; see [Modes] and [Environments].
	Mode        string      `koanf:"mode"`
	Environment string      `koanf:"environment"`
	Log         Log         `koanf:"log"`
	Store       Store       `koanf:"store"`
	Redis       Redis       `koanf:"redis"`
	DataPlane   DataPlane   `koanf:"dataPlane"`
	Diagnostics Diagnostics `koanf:"diagnostics"`
	Mesh        MeshPorts   `koanf:"mesh"`
	Admin       AdminPorts  `koanf:"admin"`
	Gateway     Gateway     `koanf:"gateway"`
	Dataplane   Dataplane   `koanf:"dataplane"`
	Zone        Zone        `koanf:"zone"`
	Envoy       Envoy       `koanf:"envoy"`
	Filter      Filter      `koanf:"filter"`
	Drain       Drain       `koanf:"drain"`
	Status      Port        `koanf:"status"`
	Workload    Workload    `koanf:"workload"`
	Cache       FilterCache `koanf:"cache"`
	AccessLog   AccessLog   `koanf:"accessLog"`
	OAuth       OAuth       `koanf:"oauth"`
	Backup      Backup      `koanf:"backup"`
	Changes     Changes     `koanf:"changes"`
	Tracing     Tracing     `koanf:"tracing"`
	Access      Access      `koanf:"access"`
	Tokens      Tokens      `koanf:"tokens"`
	Cloud       Cloud       `koanf:"cloud"`
	Audit       Audit       `koanf:"audit"`
	Defaults    Defaults    `koanf:"defaults"`
	Debug       Debug       `koanf:"debug"`
}

// Defaults says what the control plane makes by itself.
type Defaults struct {
	// SkipMeshCreation leaves out the mesh "default".
	SkipMeshCreation bool `koanf:"skipMeshCreation"`
}

// Backup is the schedule on which the control plane backs up its databases. Every 0 means
// never. Keep is the number of backups that stay in Directory.
type Backup struct {
	Every     time.Duration `koanf:"every"`
	Keep      int           `koanf:"keep"`
	Directory string        `koanf:"directory"`
}

// Changes says how long change records are kept; see store.Retention.
type Changes struct {
	Keep time.Duration `koanf:"keep"`
	Max  int           `koanf:"max"`
}

// Debug has checks that are too expensive for normal operation.
type Debug struct {
	CheckPlans bool `koanf:"checkPlans"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `koanf:"level"`
	Format string `koanf:"format"`
}

// Store says where resources are stored.
type Store struct {
	Type string `koanf:"type"`
	// Standby waits for another process to end that has the database.
	Standby    bool       `koanf:"standby"`
	SQLite     SQLite     `koanf:"sqlite"`
	Encryption Encryption `koanf:"encryption"`
}

// SQLite configures the store of type sqlite.
type SQLite struct {
	Path string `koanf:"path"`
}

// Encryption says where the key for secrets at rest is.
type Encryption struct {
	Key     string `koanf:"key"`
	KeyFile string `koanf:"keyFile"`
}

// Redis says where the second level of the token cache is.
type Redis struct {
	URL          string `koanf:"url"`
	NodeURL      string `koanf:"nodeURL"`
	CAFile       string `koanf:"caFile"`
	EmbeddedPort int    `koanf:"embeddedPort"`
}

// Port is where one API listens.
type Port struct {
	Listen string `koanf:"listen"`
	Port   int    `koanf:"port"`
}

// Diagnostics says where health, metrics and, if they are switched on, profiles are served.
type Diagnostics struct {
	Listen string `koanf:"listen"`
	Port   int    `koanf:"port"`
	Pprof  bool   `koanf:"pprof"`
}

// DataPlane says where nodes connect.
type DataPlane struct {
	Listen string `koanf:"listen"`
	Port   int    `koanf:"port"`
	Names  string `koanf:"names"`
}

// AdminPorts says where the gateway administration API listens.
type AdminPorts struct {
	Listen  string `koanf:"listen"`
	Port    int    `koanf:"port"`
	TLSPort int    `koanf:"tlsPort"`
	// Token is the token that callers must show; TokenFile is a file with it.
	Token     string `koanf:"token"`
	TokenFile string `koanf:"tokenFile"`
}

// Protected reports whether callers must show a token.
func (a *AdminPorts) Protected() bool { return a.Token != "" || a.TokenFile != "" }

// Secret returns the token, without the line break at the end of its file; it is empty if
// there is no token.
func (a *AdminPorts) Secret() (string, error) {
	if a.TokenFile == "" {
		return a.Token, checkToken("admin.token", a.Token)
	}
	raw, err := os.ReadFile(a.TokenFile)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "cannot read admin.tokenFile")
	}
	token := strings.TrimRight(string(raw), "\r\n")
	if token == "" {
		return "", fault.New(fault.Invalid, "admin.tokenFile: %s is empty", a.TokenFile)
	}
	return token, checkToken("admin.tokenFile", token)
}

// minToken is the shortest length of a token in bytes; shorter ones could be guessed.
const minToken = 16

// checkToken refuses a token that could be guessed or cannot be sent in a header (RFC 6750
// section 2.1).
func checkToken(setting, token string) error {
	if token == "" {
		return nil
	}
	if len(token) < minToken {
		return fault.New(fault.Invalid, "%s: the token must have at least %d characters", setting, minToken)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fault.New(fault.Invalid, "%s: the token must not hold blanks, control or non-ASCII characters", setting)
	}
	return nil
}

// Gateway configures the gateway that standalone and demo run.
type Gateway struct {
	Name       string `koanf:"name"`
	Listen     string `koanf:"listen"`
	HTTPPort   int    `koanf:"httpPort"`
	HTTPSPort  int    `koanf:"httpsPort"`
	TrustedIPs string `koanf:"trustedIPs"`
	// ForwardDotSegments forwards paths with escaped or ambiguous "..".
	ForwardDotSegments bool `koanf:"forwardDotSegments"`
	// Declarative is a file with the entities of the default control plane.
	Declarative string `koanf:"declarative"`
}

// Dataplane says how long the Dataplanes of agents outlive their streams.
type Dataplane struct {
	RemoveAfter time.Duration `koanf:"removeAfter"`
}

// Envoy says which Envoy runs, and how.
type Envoy struct {
	Path        string `koanf:"path"`
	LogLevel    string `koanf:"logLevel"`
	Concurrency int    `koanf:"concurrency"`
}

// Filter says how a proxy has the filter.
type Filter struct {
	// Mode is a name of [contract.Mode].
	Mode string `koanf:"mode"`
	// Authz is where an authorization service listens that somebody else runs; empty if the
	// agent runs its own.
	Authz string `koanf:"authz"`
}

// Of returns the mode. It was checked when the settings were read.
func (f Filter) Of() contract.Mode {
	m, _ := contract.ParseMode(f.Mode)
	return m
}

// Socket returns Authz as a proxy connects to it: the path of a socket, or empty.
func (f Filter) Socket() string {
	path, _ := contract.SocketPath(f.Authz)
	return path
}

// check reports what cannot work.
func (f Filter) check() (vs []fault.Violation) {
	m, err := contract.ParseMode(f.Mode)
	if err != nil {
		vs = append(vs, fault.Violation{Path: "filter.mode", Message: err.Error()})
	}
	if f.Authz == "" {
		return vs
	}
	if m != contract.ModeExtAuthz {
		return append(vs, fault.Violation{Path: "filter.authz", Message: fmt.Sprintf("is only for filter.mode %s", contract.ModeExtAuthz)})
	}
	if _, err := contract.SocketPath(f.Authz); err != nil {
		vs = append(vs, fault.Violation{Path: "filter.authz", Message: err.Error()})
	}
	return vs
}

// Zone says in which zone this control plane is.
type Zone struct {
	Name string `koanf:"name"`
}

// DefaultZone is the name of the zone of a control plane that is configured without one.
const DefaultZone = "default"

// Own returns the name of the zone of this control plane.
func (z *Zone) Own() string { return cmp.Or(z.Name, DefaultZone) }

// Drain says how proxies shut down.
type Drain struct {
	Delay   time.Duration `koanf:"delay"`
	Timeout time.Duration `koanf:"timeout"`
}

// FilterCache sizes the first level of the token cache in each gateway.
type FilterCache struct {
	MaxBytes    int64         `koanf:"maxBytes"`
	NegativeTTL time.Duration `koanf:"negativeTTL"`
	Grace       time.Duration `koanf:"grace"`
}

// OAuth bounds failed attempts at the OAuth server. Both limits are failures per minute;
// FailuresPerAddress may be 0, see oauth.Limits.
type OAuth struct {
	FailuresPerClient  int `koanf:"failuresPerClient"`
	FailuresPerAddress int `koanf:"failuresPerAddress"`
}

// Key is one row of the table of settings.
type Key struct {
	Name string
	// Default is the default in the notation of YAML.
	Default any
	// Help is a one-line description for operators.
	Help string
	// Secret values are masked wherever they are shown.
	Secret bool
}

// Table lists all settings in the order in which they are shown.
var Table = slices.Concat(general, accessKeys, accessLogKeys, cloudKeys)

var general = []Key{
	{"stateDir", "", "directory for the database, certificates and run files; empty: /var/lib/meshgate as root, else below the user's state directory; a dataplane then uses a folder of its own below it", false},
	{"modulePath", "", "directory of libmeshgate.so; empty: beside the meshgate binary", false},
	{"mode", ModeStandalone, "standalone; or global or zone: which of several control planes this one is, and so which resources can be written (docs/operations/modes.md)", false},
	{"environment", EnvironmentUniversal, "universal, or kubernetes: resources of meshes are then written through Kubernetes, and read through the mesh API", false},
	{"log.level", "info", "debug, info, warn or error", false},
	{"log.format", "text", "text or json", false},
	{"store.type", "sqlite", "sqlite or memory; memory forgets everything at exit", false},
	{"store.standby", false, "wait while another control plane has the database, without listening anywhere, and take over when that one ends (docs/operations/standby.md); false: give up at once", false},
	{"store.sqlite.path", "", "database file; empty: meshgate.db in the state directory", false},
	{"store.encryption.key", "", "base64 keyset that encrypts secrets at rest; overrides the file", true},
	{"store.encryption.keyFile", "", "file of that keyset, made at first start; empty: encryption.key in the state directory", false},
	{"redis.url", "", "host:port, redis://, rediss://, unix://, redis+sentinel:// or redis+cluster:// of the token cache (docs/redis.md); empty: an embedded one on loopback", true},
	{"redis.nodeURL", "", "what proxies are told, for a user that may only read; empty: they get no Redis, or the embedded one", true},
	{"redis.caFile", "", "PEM bundle that signs a rediss:// server; empty: the system's", false},
	{"redis.embeddedPort", 6390, "port of the embedded cache, or the next free one", false},
	{"dataPlane.listen", "0.0.0.0", "address of the data-plane server", false},
	{"dataPlane.port", 5678, "port of the data-plane server", false},
	{"dataPlane.names", "", "comma-separated further names and addresses for the certificates; localhost, 127.0.0.1 and ::1 are always in them", false},
	{"diagnostics.listen", "127.0.0.1", "address of health and metrics", false},
	{"diagnostics.port", 5680, "port of health and metrics", false},
	{"diagnostics.pprof", false, "offer profiles of the process at /debug/pprof of the diagnostics port; with an administration token they demand it", false},
	{"mesh.listen", "127.0.0.1", "address of the mesh API", false},
	{"mesh.port", 5681, "port of the mesh API", false},
	{"mesh.tlsPort", 5682, "port of the mesh API over HTTPS", false},
	{"defaults.skipMeshCreation", false, "make no mesh called default at the start; one that exists stays", false},
	{"mesh.readOnly", false, "refuse writes of resources through the mesh API; tokens are still issued", false},
	{"mesh.tlsCertFile", "", "PEM file of its certificate, read again when it changes; empty: one of the control plane's authority", false},
	{"mesh.tlsKeyFile", "", "PEM file of the key of this certificate", false},
	{"mesh.corsAllowedDomains", "", "comma-separated origins, such as https://console.example, whose web pages may call the mesh API", false},
	{"mesh.product", "meshgate", "product that GET / of the mesh API names; some clients only work with a control plane of their own product", false},
	{"admin.listen", "127.0.0.1", "address of the gateway administration API", false},
	{"admin.port", 8001, "port of the gateway administration API over HTTP", false},
	{"admin.tlsPort", 8444, "port of the gateway administration API over HTTPS", false},
	{"admin.token", "", "bearer token that the gateway administration API demands, at least 16 characters; empty: none, and then the API is on loopback only", true},
	{"admin.tokenFile", "", "file that holds this token", false},
	{"gateway.name", "gateway-1", "instance name of the gateway that standalone and demo run", false},
	{"gateway.listen", "0.0.0.0", "address of the gateway's listeners", false},
	{"gateway.httpPort", 8000, "the gateway's HTTP port", false},
	{"gateway.httpsPort", 8443, "the gateway's HTTPS port", false},
	{"gateway.trustedIPs", "", "comma-separated addresses and networks of proxies whose X-Forwarded-* headers are believed", false},
	{"gateway.forwardDotSegments", false, "pass paths on in which some server could read a segment \"..\" (..;x, ..%2f, %252e%252e/), instead of answering 400", false},
	{"gateway.declarative", "", "file with all entities of the gateway (see docs/declarative.md); the administration API is then read-only", false},
	{"dataplane.removeAfter", "30s", "how long the stream of a proxy may be gone before the Dataplane that its agent registered is removed", false},
	{"zone.name", "", "name of the zone of this control plane; empty: default. Where it is set, labels mesh.io/zone of documents must say the same, and each Dataplane has it as its tag mesh.io/zone", false},
	{"envoy.path", "", "Envoy binary; empty: $ENVOY_PATH, beside meshgate, .tools, PATH", false},
	{"envoy.logLevel", "warning", "Envoy's log level", false},
	{"envoy.concurrency", 0, "Envoy's worker threads; 0: one per CPU", false},
	{"filter.mode", "module", "how gateways check tokens: module (in Envoy's process), extauthz (a service beside Envoy) or golang (in the process of a contrib Envoy); docs/filter.md says how to choose", false},
	{"filter.authz", "", "with filter.mode extauthz: unix:// and the path of the socket of a meshgate authz; empty: the agent runs a service of its own", false},
	{"status.listen", "0.0.0.0", "address of a proxy's status", false},
	{"status.port", 0, "port at which a proxy answers /ready and /live (docs/draining.md) and /metrics to Prometheus (docs/operations/metrics.md), all without credentials; 0: none", false},
	{"workload.address", "", "comma-separated addresses and networks beside its own machine at which a sidecar's workloads may be; link-local ones, where clouds tell machines their credentials, no proxy leads to unless they are here (docs/mesh.md)", false},
	{"drain.delay", "5s", "how long a proxy that is told to end goes on as before, so that load balancers see its /ready fail (docs/draining.md); demo: 0s", false},
	{"drain.timeout", "30s", "how long its clients are then sent away, and requests in flight may finish; new connections are accepted for half of it at most", false},
	{"cache.maxBytes", 256 << 20, "memory for the token cache inside each gateway; up to 48 MiB of garbage come on top", false},
	{"cache.negativeTTL", "2s", "how long an unknown token is remembered as unknown", false},
	{"cache.grace", "0s", "how long cached tokens may be used while neither control plane nor Redis answers; weakens revocation by as much", false},
	{"oauth.failuresPerClient", 100, "wrong secrets a minute for one client, and wrong provision keys for one plugin, before 429; addresses that have shown the right one are counted each by itself", false},
	{"oauth.failuresPerAddress", 0, "failed authentications a minute from one address before 429; 0: none are counted, but those at plugins of the profile oauth2.1 (20, and one more each second)", false},
	{"backup.every", "0s", "time between two backups that the control plane makes by itself, at least 1m; 0: none (docs/operations/backup.md)", false},
	{"backup.keep", 7, "how many of these backups are kept, the newest", false},
	{"backup.directory", "", "where they are; empty: backups in the state directory, which only helps while its disk does", false},
	{"changes.keep", "720h", "how long it is kept who changed what (docs/operations/changes.md), at least 1h", false},
	{"changes.max", 100_000, "how many changes are kept at most, the newest, and a tenth as many of what proxies do; at least 1000", false},
	{"tracing.otlp.endpoint", "", "http:// or https:// URL of a collector to which gateways send spans, in OTLP over HTTP; without a path /v1/traces; empty: none. The control plane's own follow OTEL_* (docs/operations/traces.md)", false},
	{"tracing.sample", 0.01, "share of the requests that gateways trace, from 0 to 1; those that a client says not to sample are none of them", false},
	{"debug.checkPlans", false, "hold every change of a mesh's configuration against one made from nothing, and log what differs", false},
}
