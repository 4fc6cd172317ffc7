package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
)

func TestEnvName(t *testing.T) {
	for key, want := range map[string]string{
		"stateDir":                 "MESHGATE_STATE_DIR",
		"store.sqlite.path":        "MESHGATE_STORE_SQLITE_PATH",
		"store.encryption.keyFile": "MESHGATE_STORE_ENCRYPTION_KEY_FILE",
		"redis.url":                "MESHGATE_REDIS_URL",
		"gateway.trustedIPs":       "MESHGATE_GATEWAY_TRUSTED_IPS",
		"cache.negativeTTL":        "MESHGATE_CACHE_NEGATIVE_TTL",
		"admin.tlsPort":            "MESHGATE_ADMIN_TLS_PORT",
		"dataPlane.port":           "MESHGATE_DATA_PLANE_PORT",
		"gateway.httpsPort":        "MESHGATE_GATEWAY_HTTPS_PORT",
	} {
		if got := EnvName(key); got != want {
			t.Errorf("EnvName(%q) = %q, want %q", key, got, want)
		}
	}
}

func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meshgate.yaml")
	write(t, file, "admin:\n  port: 9001\n  tlsPort: 9444\nmesh:\n  port: 9681\nlog: {level: debug}\n")
	l, err := Load(Sources{
		Env:   []string{EnvFile + "=" + file, "MESHGATE_ADMIN_TLS_PORT=9445", "MESHGATE_MESH_PORT=9682", "PATH=/bin"},
		Flags: map[string]string{"mesh.port": "9683"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := l.Config
	if c.Admin.Port != 9001 || c.Admin.TLSPort != 9445 || c.Mesh.Port != 9683 || c.Diagnostics.Port != 5680 || c.Log.Level != "debug" {
		t.Errorf("merged = %+v", c)
	}
	for key, want := range map[string]string{"admin.port": "file", "admin.tlsPort": "environment", "mesh.port": "flag", "diagnostics.port": "default"} {
		if got := l.Origin[key]; got != want {
			t.Errorf("origin of %s = %q, want %q", key, got, want)
		}
	}
}

func TestMistakesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meshgate.yaml")
	for name, tc := range map[string]struct {
		yaml  string
		env   string
		flags map[string]string
		want  string
	}{
		"filter mode":  {yaml: "filter:\n  mode: wasm\n", want: "filter.mode: must be one of module, extauthz, golang"},
		"authz alone":  {yaml: "filter:\n  authz: unix:///run/a.sock\n", want: "filter.authz: is only for filter.mode extauthz"},
		"authz port":   {yaml: "filter:\n  mode: extauthz\n  authz: 127.0.0.1:9191\n", want: "filter.authz: must be unix:// and an absolute path, such as unix:///run/meshgate/authz.sock: any user of the machine can reach a port"},
		"authz path":   {yaml: "filter:\n  mode: extauthz\n  authz: unix://a.sock\n", want: "filter.authz: must be unix:// and an absolute path"},
		"authz bare":   {yaml: "filter:\n  mode: extauthz\n  authz: /run/a.sock\n", want: "filter.authz: must be unix:// and an absolute path"},
		"unknown key":  {yaml: "admin:\n  prot: 1\n", want: "configuration file " + file + `: unknown setting "admin.prot"; did you mean "admin.port"?`},
		"not YAML":     {yaml: "a: [", want: "is not valid YAML"},
		"two files":    {yaml: "admin:\n  port: 9001\n---\nmesh:\n  port: 9002\n", want: "holds more than one YAML document: the second begins in line 3"},
		"two keys":     {yaml: "admin:\n  port: 9001\nadmin.port: 9002\n", want: "admin.port is given twice"},
		"twice":        {yaml: "admin:\n  port: 9001\n  port: 9002\n", want: `key "port" already set`},
		"wrong type":   {yaml: "admin: {port: many}\n", want: "wrong type"},
		"port clash":   {flags: map[string]string{"mesh.port": "8001"}, want: "port 8001 is also mesh.port"},
		"open admin":   {flags: map[string]string{"admin.listen": "0.0.0.0"}, want: "admin.listen: must be a loopback address unless admin.token or admin.tokenFile is set, access.roles"},
		"open mesh":    {env: "MESHGATE_ADMIN_TOKEN=0123456789abcdef", flags: map[string]string{"mesh.listen": "0.0.0.0"}, want: "mesh.listen: must be a loopback address unless access.roles is set or access.anonymous is false"},
		"no role":      {yaml: "access:\n  roles:\n  - {role: owner, all: true, users: [a]}\n", want: "access.roles[0].role: must be viewer, editor or admin"},
		"mistyped":     {yaml: "access:\n  roles:\n  - {role: admin, mesh: [m], users: [a]}\n", want: `access.roles: unknown field "mesh"`},
		"role text":    {env: "MESHGATE_ACCESS_ROLES=[{role: admin, users: [a]}]", want: "access.roles[0]: needs meshes, controlPlanes or all: true"},
		"all roles":    {env: "MESHGATE_ACCESS_ROLES=[{role: admin, users: [a], meshes: [m], all: true}]", want: "access.roles[0].all: cannot be set beside"},
		"nobody":       {env: "MESHGATE_ACCESS_ROLES=[{role: admin, all: true}]", want: "access.roles[0]: needs users or groups"},
		"anonymous":    {env: "MESHGATE_ACCESS_ROLES=[{role: viewer, all: true, groups: ['mesh-system:unauthenticated']}]", want: "access.roles[0]: cannot be given to callers without an identity"},
		"no key file":  {env: "MESHGATE_TOKENS_PUBLIC_KEYS=[{for: user, kid: ci}]", want: "tokens.publicKeys[0].keyFile: is needed"},
		"half a pair":  {flags: map[string]string{"mesh.tlsCertFile": "x"}, want: "mesh.tlsCertFile: is set together with mesh.tlsKeyFile"},
		"plain issuer": {flags: map[string]string{"access.oidc.issuer": "http://a.example"}, want: "access.oidc.issuer: must begin with https://"},
		"no audience":  {flags: map[string]string{"access.oidc.issuer": "https://a.example"}, want: "access.oidc.audience: is needed"},
		"odd product":  {flags: map[string]string{"mesh.product": "a\nb"}, want: "mesh.product: must be up to 64 printable characters"},
		"any origin":   {flags: map[string]string{"mesh.corsAllowedDomains": "https://a.example,*"}, want: `mesh.corsAllowedDomains: "*" is no origin`},
		"two tokens":   {env: "MESHGATE_ADMIN_TOKEN=0123456789abcdef", flags: map[string]string{"admin.tokenFile": "x"}, want: "admin.tokenFile: cannot be set beside admin.token"},
		"bad enum":     {flags: map[string]string{"store.type": "mysql"}, want: "store.type: must be one of sqlite, memory"},
		"busy backup":  {flags: map[string]string{"backup.every": "59s"}, want: "backup.every: must be 0 or at least 1m"},
		"no backup":    {flags: map[string]string{"backup.every": "1h", "store.type": "memory"}, want: "backup.every: must be 0 while store.type is memory"},
		"no successor": {flags: map[string]string{"store.standby": "true", "store.type": "memory"}, want: "store.standby: must be false while store.type is memory"},
		"no memory":    {flags: map[string]string{"changes.keep": "59m"}, want: "changes.keep: must be at least 1h"},
		"bad zone":     {flags: map[string]string{"zone.name": "East"}, want: "zone.name: must be up to 63 lower-case letters, digits and dashes"},
		"few changes":  {flags: map[string]string{"changes.max": "999"}, want: "changes.max: must be at least 1000"},
		"half a log":   {flags: map[string]string{"accessLog.sample": "1.5"}, want: "accessLog.sample: must be between 0 and 1"},
		"tiny log":     {flags: map[string]string{"accessLog.maxSize": "1000"}, want: "accessLog.maxSize: must be at least 65536"},
		"no log kept":  {flags: map[string]string{"accessLog.keep": "0"}, want: "accessLog.keep: must be at least 1"},
		"collector":    {flags: map[string]string{"accessLog.otlp.endpoint": "collector:4317"}, want: "accessLog.otlp.endpoint: must be http://host:port or https://host:port"},
		"none kept":    {flags: map[string]string{"backup.keep": "0"}, want: "backup.keep: must be at least 1"},
		"bad proxy":    {flags: map[string]string{"cloud.trustedIPs": "10.0.0.0/8, 10.0.0.0/33"}, want: `"10.0.0.0/33" is neither an address nor a network`},
		"mapped":       {flags: map[string]string{"cloud.trustedIPs": "::ffff:0:0/95"}, want: "name the networks apart"},
		"bad network":  {flags: map[string]string{"gateway.trustedIPs": "10.0.0.0/8, x"}, want: `"x" is neither an address nor a network`},
	} {
		t.Run(name, func(t *testing.T) {
			src := Sources{Flags: tc.flags}
			if tc.yaml != "" {
				write(t, file, tc.yaml)
				src.File = file
			}
			if tc.env != "" {
				src.Env = []string{tc.env}
			}
			_, err := Load(src)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestOnlyWhatIsUsedIsChecked: wrong settings of a control plane do not stop a proxy, which
// may also have the port of an API elsewhere. Its own settings are checked.
func TestOnlyWhatIsUsedIsChecked(t *testing.T) {
	proxy := func(name string) bool {
		return strings.HasPrefix(name, "gateway.") || strings.HasPrefix(name, "drain.") || strings.HasPrefix(name, "status.")
	}
	file := filepath.Join(t.TempDir(), "meshgate.yaml")
	for name, tc := range map[string]struct{ yaml, want string }{
		"the port of an API":      {"gateway: {httpPort: 8001}", ""},
		"a token that is not set": {"admin: {listen: 0.0.0.0}", ""},
		"backups of others":       {"backup: {every: 1s}", ""},
		"its own ports":           {"gateway: {httpPort: 8002}\nstatus: {port: 8002}", "status.port: port 8002 is also gateway.httpPort"},
		"its own section":         {"drain: {delay: -1s}", "drain: values must not be negative"},
		"no address":              {"gateway: {listen: here}", "gateway.listen: must be an IP address"},
		"a wrong type":            {"admin: {port: many}", "wrong type"},
	} {
		write(t, file, tc.yaml)
		_, err := Load(Sources{File: file, Uses: proxy})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestShowPicks: names select a setting or a section. Other names are errors.
func TestShowPicks(t *testing.T) {
	l, err := Load(Sources{Env: []string{"MESHGATE_ADMIN_TOKEN=0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Show(&out, "admin", "redis.url"); err != nil || strings.Count(out.String(), "\n") != 7 || strings.Contains(out.String(), "0123456789abcdef") {
		t.Errorf("%v %s", err, &out)
	}
	out.Reset()
	flag := func(k Key) string { return "as " + k.Name }
	if err := l.Explain(&out, flag, "admin.token"); err != nil || out.String() != `admin.token: [redacted] (environment)
    bearer token that the gateway administration API demands, at least 16 characters; empty: none, and then the API is on loopback only
    default ""; MESHGATE_ADMIN_TOKEN; as admin.token
` {
		t.Errorf("%v %s", err, &out)
	}
	for _, name := range []string{"redsi.url", "", ".", "admin.toke"} {
		if err := errors.Join(l.Show(&out, name), l.Explain(&out, flag, name)); err == nil || !strings.Contains(err.Error(), "there is no setting ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestForeignVariablesAreWarnings loads the environment that Kubernetes gives to every
// container beside services called meshgate and meshgate-admin.
func TestForeignVariablesAreWarnings(t *testing.T) {
	l, err := Load(Sources{Env: []string{
		"MESHGATE_SERVICE_HOST=10.0.0.1", "MESHGATE_PORT=tcp://10.0.0.1:8001", "MESHGATE_PORT_8001_TCP_ADDR=10.0.0.1",
		"MESHGATE_ADMIN_PORT=tcp://10.0.0.2:8001", "MESHGATE_STORE_SQLITE_PAHT=x", "MESHGATE_LOG_LEVEL=debug",
		"MESHGATE_FILTER_REMEMBER=false", // is for the filter
	}})
	if err != nil {
		t.Fatal(err)
	}
	if l.Config.Admin.Port != 8001 || l.Config.Log.Level != "debug" {
		t.Errorf("loaded %+v", l.Config)
	}
	all := strings.Join(l.Warnings, "\n")
	for _, want := range []string{
		"MESHGATE_SERVICE_HOST is no setting", "MESHGATE_PORT is no setting", "MESHGATE_PORT_8001_TCP_ADDR is no setting",
		"MESHGATE_ADMIN_PORT=tcp://10.0.0.2:8001 describes a Kubernetes service", "did you mean MESHGATE_STORE_SQLITE_PATH?",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	if len(l.Warnings) != 5 {
		t.Errorf("%d warnings, want 5:\n%s", len(l.Warnings), all)
	}
	// A port that is neither a number nor a service link is still an error.
	if _, err := Load(Sources{Env: []string{"MESHGATE_ADMIN_PORT=many"}}); err == nil {
		t.Error("MESHGATE_ADMIN_PORT=many was accepted")
	}
}

func TestShowMasksSecrets(t *testing.T) {
	l, err := Load(Sources{Env: []string{"MESHGATE_REDIS_URL=redis://:canary-secret@h:1", "MESHGATE_STORE_ENCRYPTION_KEY=canary-secret", "MESHGATE_ADMIN_TOKEN=canary-secret"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := l.Show(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "canary-secret") {
		t.Errorf("a secret is shown:\n%s", out.String())
	}
	if n := strings.Count(out.String(), Mask); n != 3 {
		t.Errorf("%d masked values, want 3:\n%s", n, out.String())
	}
}

// TestTableCoversConfig: every setting has a row.
func TestTableCoversConfig(t *testing.T) {
	l, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Table {
		if k.Help == "" {
			t.Errorf("%s has no help", k.Name)
		}
	}
	if l.Config.Drain.Delay.Seconds() != 5 || l.Config.Drain.Timeout.Seconds() != 30 || l.Config.Cache.NegativeTTL.Seconds() != 2 {
		t.Errorf("durations were not decoded: %+v", l.Config)
	}
}

func TestAdminToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for name, tc := range map[string]struct {
		admin AdminPorts
		file  string
		want  string
		fails string
	}{
		"none":              {},
		"setting":           {admin: AdminPorts{Token: "0123456789abcdef"}, want: "0123456789abcdef"},
		"file":              {admin: AdminPorts{TokenFile: file}, file: "0123456789abcdef\n", want: "0123456789abcdef"},
		"short":             {admin: AdminPorts{Token: "short"}, fails: "admin.token: the token must have at least 16 characters"},
		"blank":             {admin: AdminPorts{TokenFile: file}, file: "0123456789 abcdef", fails: "admin.tokenFile: the token must not hold blanks"},
		"empty file":        {admin: AdminPorts{TokenFile: file}, file: "\n", fails: "is empty"},
		"file is not there": {admin: AdminPorts{TokenFile: file + "x"}, fails: "cannot read admin.tokenFile"},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, file, tc.file)
			got, err := tc.admin.Secret()
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) || err == nil && got != tc.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if l, err := Load(Sources{Env: []string{"MESHGATE_ADMIN_TOKEN=0123456789abcdef"}, Flags: map[string]string{"admin.listen": "0.0.0.0"}}); err != nil || !l.Config.Admin.Protected() {
		t.Errorf("an address with a token: %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAccess: users, groups and roles, from a file and from the environment.
func TestAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "meshgate.yaml")
	write(t, file, "mesh: {listen: 0.0.0.0}\naccess:\n  static:\n    viewStats: {users: [a, b]}\n  roles:\n  - {role: viewer, meshes: [m], groups: [g]}\n")
	l, err := Load(Sources{File: file, Env: []string{"MESHGATE_ACCESS_STATIC_VIEW_CLUSTERS_GROUPS=c, d"}})
	if err != nil {
		t.Fatal(err)
	}
	rights := l.Config.Access.Static.Rights()
	if !slices.Equal(rights[access.Stats].Users, []string{"a", "b"}) || !slices.Equal(rights[access.Clusters].Groups, []string{"c", "d"}) || len(rights[access.ConfigDump].Users) != 0 {
		t.Errorf("%+v", rights)
	}
	if r := l.Config.Access.Roles; len(r) != 1 || r[0].Role != "viewer" || !l.Config.Access.IdentityNeeded() {
		t.Errorf("%+v", r)
	}
	l, err = Load(Sources{Env: []string{"MESHGATE_ACCESS_ANONYMOUS=false"}, Flags: map[string]string{"mesh.listen": "0.0.0.0", "admin.listen": "0.0.0.0"}})
	if err != nil || !l.Config.Access.Rules().IdentityNeeded() {
		t.Errorf("an open API that demands an identity: %v", err)
	}
}

// TestCloudHosts: the hosts of the cloud API are those of the certificates and those of a load balancer,
// as requests name them.
func TestCloudHosts(t *testing.T) {
	l, err := Load(Sources{Env: []string{"MESHGATE_CLOUD_HOSTS=cloud.example.com, api.example.com"}, Flags: map[string]string{"dataPlane.names": "CP.example., 10.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Config.CloudHosts(), []string{"cp.example", "10.0.0.1", "cloud.example.com", "api.example.com"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"cloud.example.com:5691", "Cloud.example.com", "https://cloud.example.com", "*.example.com", "a,b c", strings.Repeat("a.", 127) + "b"} {
		if _, err := Load(Sources{Flags: map[string]string{"cloud.hosts": bad}}); err == nil || !strings.Contains(err.Error(), "cloud.hosts") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
