package mesh

import (
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// These are the types of logging backends.
const (
	LoggingFile = "file"
	LoggingTCP  = "tcp"
)

// Bounds of logging backends. A file that is put aside gets a suffix, which must fit into the
// name as well (255 bytes on Linux).
const (
	maxLogBackends = 32
	maxLogPath     = 1024
	maxLogName     = 240
)

// PassThrough is the service by which policies are chosen for connections that leave the mesh.
const PassThrough = "pass_through"

const (
	textHostPort = "has to be in format of HOST:PORT"
	textLogging  = `unknown backend type. Available backends: "tcp", "file"`
)

// LogSink is where a logging backend writes: one of the fields is set. It is comparable.
type LogSink struct {
	// File is a path on the machine of each proxy; one that is not absolute is in the directory
	// that the agent of the proxy has for logs.
	File string
	// TCP is host:port.
	TCP string
}

// Sink reads the configuration of a backend. The paths of violations are relative to it.
func (b *LoggingBackend) Sink() (LogSink, []fault.Violation) {
	var vs violations
	var s LogSink
	switch b.Type {
	case LoggingFile:
		s.File = text(b.Conf, "path")
		if wrong := CheckLogFile(s.File); wrong != "" {
			vs.add("config.path", wrong)
		}
	case LoggingTCP:
		s.TCP = text(b.Conf, "address")
		if wrong := CheckLogAddress(s.TCP); wrong != "" {
			vs.add("config.address", wrong)
		}
	default:
		vs.add("type", textLogging)
	}
	if _, wrong := ParseLogFormat(b.Format); wrong != "" {
		vs.add("format", wrong)
	}
	return s, vs
}

// putAside matches names of files that are put aside when another file is large.
var putAside = regexp.MustCompile(`\.[0-9]+$`)

// CheckLogFile says what is wrong with the path of a log. The result is empty if nothing is. Only
// the agent of a proxy knows which directories there are.
func CheckLogFile(file string) string {
	switch {
	case file == "":
		return textEmpty
	case len(file) > maxLogPath:
		return "must not be longer than " + strconv.Itoa(maxLogPath) + " bytes"
	case strings.ContainsFunc(file, unicode.IsControl):
		return "must have no control characters"
	case path.Clean(file) != file || file == "." || file == "/" || file == ".." || strings.HasPrefix(file, "../"):
		return "must be the path of a file, without . and .. and empty parts"
	case putAside.MatchString(file):
		return "must not end with a dot and a number: files that are put aside have such names"
	}
	for part := range strings.SplitSeq(file, "/") {
		if len(part) > maxLogName {
			return "must have no name longer than " + strconv.Itoa(maxLogName) + " bytes"
		}
	}
	return ""
}

// CheckLogAddress says what is wrong with the address of a server that takes lines. The result is
// empty if nothing is.
func CheckLogAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	switch {
	case address == "":
		return textEmpty
	case err != nil || host == "" || port == "":
		return textHostPort
	case !isHost(host):
		return textHost
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return textPort
	}
	return ""
}

func (vs *violations) logging(l *Logging) {
	if l == nil {
		return
	}
	if len(l.Backends) > maxLogBackends {
		vs.add("logging.backends", "must not have more than "+strconv.Itoa(maxLogBackends)+" elements")
	}
	for i := range l.Backends {
		path := indexed("logging.backends", i)
		if l.Backends[i].Name == "" {
			vs.add(path+".name", textEmpty)
		}
		_, wrong := l.Backends[i].Sink()
		for _, v := range wrong {
			vs.add(path+"."+v.Path, v.Message)
		}
	}
	names := vs.names("logging.backends", len(l.Backends), func(i int) string { return l.Backends[i].Name })
	if l.DefaultBackend != "" && !slices.Contains(names, l.DefaultBackend) {
		vs.add("logging.defaultBackend", "has to be set to one of the logging backend in mesh")
	}
}
