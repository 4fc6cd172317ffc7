package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/yamldoc"
)

// EnvFile names the environment variable with the path of the YAML file.
const EnvFile = "MESHGATE_CONFIG"

const envPrefix = "MESHGATE_"

// reserved lists the environment variables with our prefix that are not settings.
var reserved = []string{EnvFile, "MESHGATE_FILTER_SETTINGS", "MESHGATE_FILTER_REMEMBER"}

// Sources are the inputs of Load. Flags holds only flags that were given.
type Sources struct {
	File  string
	Env   []string
	Flags map[string]string
	// Uses says which settings the command uses; nil means all. Ports that it does not open
	// cannot clash.
	Uses func(name string) bool
}

// Loaded is a configuration with the sources of its values.
type Loaded struct {
	Config Config
	// Origin maps each key to default, file, environment or flag.
	Origin map[string]string
	// Warnings are for the log: environment variables that look like settings and are not.
	Warnings []string
	values   map[string]any
}

// Load merges all sources. Values of the wrong type, and unknown keys of files and flags, are
// errors. They name the source and, for unknown keys, the nearest known one. Unknown
// environment variables are only warnings, because others set them too: Kubernetes gives
// every container MESHGATE_SERVICE_HOST and similar variables if a service is called
// meshgate.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{Origin: map[string]string{}, values: map[string]any{}}
	for _, k := range Table {
		l.values[k.Name], l.Origin[k.Name] = k.Default, "default"
	}
	path := src.file()
	file, err := readFile(path)
	if err != nil {
		return nil, err
	}
	env, warnings := readEnv(src.Env)
	l.Warnings = warnings
	if err := checkFlags(src.Flags); err != nil {
		return nil, err
	}
	flags := map[string]any{}
	for k, v := range src.Flags {
		flags[k] = v
	}
	for _, layer := range []struct {
		origin, place string
		values        map[string]any
	}{{"file", "configuration file " + path, file}, {"environment", "environment", env}, {"flag", "flag", flags}} {
		if err := l.merge(layer.origin, layer.place, layer.values); err != nil {
			return nil, err
		}
	}
	return l, l.decode(src.Uses)
}

// merge adds the values of a source. place names the source in errors. An operator who has
// several files, or a file from the environment, must learn which one to open.
func (l *Loaded) merge(origin, place string, values map[string]any) error {
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if _, known := l.values[k]; !known {
			return fault.New(fault.Invalid, "%s: unknown setting %q; did you mean %q?", place, k, nearest(k))
		}
		l.values[k], l.Origin[k] = values[k], origin
	}
	return nil
}

func (l *Loaded) decode(uses func(string) bool) error {
	k := koanf.New(".")
	lists := l.Config.lists()
	for name, v := range l.values {
		if into := lists[name]; into != nil {
			if err := decodeList(name, v, into); err != nil {
				return err
			}
			continue
		}
		if err := k.Set(name, v); err != nil {
			return fault.Wrap(fault.Invalid, err, "setting %s", name)
		}
	}
	if err := k.UnmarshalWithConf("", &l.Config, koanf.UnmarshalConf{}); err != nil {
		return fault.Wrap(fault.Invalid, err, "the configuration has a value of the wrong type")
	}
	l.Config.complete()
	return l.Config.check(uses)
}

// file returns the path of the YAML file, or an empty text.
func (src Sources) file() string {
	path := src.File
	for _, e := range src.Env {
		if v, ok := strings.CutPrefix(e, EnvFile+"="); ok && path == "" {
			path = v
		}
	}
	return path
}

// readFile flattens the YAML file into dotted keys.
func readFile(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path) //nolint:gosec // the operator names this file
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "cannot read the configuration file")
	}
	if _, err := yamldoc.One(data); err != nil {
		if second, ok := errors.AsType[*yamldoc.SecondError](err); ok {
			return nil, fault.New(fault.Invalid, "configuration file %s holds %s", path, second)
		}
		return nil, fault.Wrap(fault.Invalid, err, "configuration file %s is not valid YAML", path)
	}
	var tree map[string]any
	if err := yaml.UnmarshalStrict(data, &tree); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "configuration file %s is not valid YAML", path)
	}
	flat := map[string]any{}
	if twice := flatten("", tree, flat); twice != "" {
		return nil, fault.New(fault.Invalid, "configuration file %s: %s is given twice, nested and with a dot", path, twice)
	}
	return flat, nil
}

// flatten returns a key that occurs in two spellings. Which of them would count could change
// from start to start.
func flatten(prefix string, tree, into map[string]any) (twice string) {
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		v := tree[k]
		if sub, ok := v.(map[string]any); ok {
			twice = cmp.Or(twice, flatten(prefix+k+".", sub, into))
			continue
		}
		if _, there := into[prefix+k]; there {
			twice = cmp.Or(twice, prefix+k)
		}
		into[prefix+k] = v
	}
	return twice
}

// toolFlags are the flags of the declarative tool, which may be in the environment, and
// toolFiles is how the variables begin that its files refer to. None of them is a setting.
const (
	toolFlags = " ALL_MESHES CA_CERT_FILE CLOUD_ADDR CLOUD_CONTROL_PLANE_NAME CLOUD_TOKEN CLOUD_TOKEN_FILE DRY_RUN FORCE FORMAT " +
		"GATEWAY_ADDR HEADERS JSON_OUTPUT MESH MESH_ADDR NON_ZERO_EXIT_CODE OUTPUT_FILE PARALLELISM SELECT_TAG SILENCE_EVENTS " +
		"SKIP_CONSUMERS TOKEN_FILE WITH_ID WITH_PROXIES WITH_SECRETS WITH_TOKENS WORKSPACE YES "
	toolFiles = envPrefix + "FILE_"
)

// ofTool reports whether a variable of the environment is for the declarative tool.
func ofTool(name string) bool {
	return strings.HasPrefix(name, toolFiles) || strings.Contains(toolFlags, " "+strings.TrimPrefix(name, envPrefix)+" ")
}

// readEnv returns the settings in the environment, and warnings about ignored variables.
func readEnv(env []string) (values map[string]any, warnings []string) {
	names := map[string]string{}
	for _, k := range Table {
		names[EnvName(k.Name)] = k.Name
	}
	values = map[string]any{}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(reserved, name) || ofTool(name) {
			continue
		}
		key, known := names[name]
		switch {
		case !known:
			warnings = append(warnings, fmt.Sprintf("%s is no setting; did you mean %s?", name, fault.Nearest(name, slices.Collect(maps.Keys(names)))))
		case strings.HasSuffix(name, "_PORT") && serviceLink.MatchString(value):
			warnings = append(warnings, fmt.Sprintf("%s=%s describes a Kubernetes service; set enableServiceLinks: false in the pod to get rid of it", name, value))
		default:
			values[key] = value
		}
	}
	slices.Sort(warnings)
	return values, warnings
}

// serviceLink matches the value of NAME_PORT that Kubernetes sets for a service. For services
// called meshgate-admin or meshgate-mesh this variable has the name of a setting.
var serviceLink = regexp.MustCompile(`^(tcp|udp|sctp)://`)

// EnvName returns the environment variable of a key: MESHGATE_STORE_SQLITE_PATH for
// store.sqlite.path, MESHGATE_STATE_DIR for stateDir. A sequence of capitals counts as one
// word.
func EnvName(key string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	upper := func(i int) bool { return i >= 0 && i < len(key) && key[i] >= 'A' && key[i] <= 'Z' }
	for i := range len(key) {
		switch {
		case key[i] == '.':
			b.WriteByte('_')
			continue
		case upper(i) && i > 0 && key[i-1] != '.' && (!upper(i-1) || (i+1 < len(key) && !upper(i+1) && key[i+1] != '.' && key[i+1] != 's')):
			b.WriteByte('_')
		}
		b.WriteString(strings.ToUpper(key[i : i+1]))
	}
	return b.String()
}

// complete sets values that depend on other settings or on the machine.
func (c *Config) complete() {
	if c.StateDir == "" {
		c.StateDir = defaultStateDir()
	}
	if c.Store.SQLite.Path == "" {
		c.Store.SQLite.Path = filepath.Join(c.StateDir, "meshgate.db")
	}
	if c.Store.Encryption.KeyFile == "" {
		c.Store.Encryption.KeyFile = filepath.Join(c.StateDir, "encryption.key")
	}
	if c.Backup.Directory == "" {
		c.Backup.Directory = filepath.Join(c.StateDir, "backups")
	}
}

func defaultStateDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/meshgate"
	}
	if d := os.Getenv("XDG_STATE_HOME"); d != "" {
		return filepath.Join(d, "meshgate")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("meshgate-%d", os.Getuid()))
	}
	return filepath.Join(home, ".local", "state", "meshgate")
}
