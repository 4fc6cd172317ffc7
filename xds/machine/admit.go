package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds is what configuration may use of a machine. With the zero value no files are
// permitted, and the only restriction of addresses is that they are not link-local.
type Bounds struct {
	// AccessLog is the file for access logs; empty means standard output.
	AccessLog string
	// Roots is the file with the authorities that sign server certificates; empty if there is
	// none.
	Roots string
	// Library is the file of the library for Envoy's filter for Go; empty if the proxy has
	// none.
	Library string
	// Mode is the way in which the proxy has the filter, nil for any. The filter of another mode
	// is refused.
	Mode *contract.Mode
	// Admin and Status are the ports of this machine for Envoy's administration and the
	// agent's status, 0 for none. Nothing may connect to them.
	Admin, Status uint16
	// Trusting returns the ports of this machine at which a control plane takes whoever is on it
	// for an administrator. nil means none. Nothing may connect to them.
	Trusting func() []uint16
	// Workloads requires that clusters of the proxy's own workloads lead to this machine or to
	// an allowed address.
	Workloads bool
	// Elsewhere forbids all addresses of this machine but allowed ones: whatever the proxy leads
	// strangers to is on other machines.
	Elsewhere bool
	// Names are the names that strangers may be led to in spite of Elsewhere, although only a
	// resolver knows where they are.
	Names []hostname.Suffix
	// Allowed are further addresses of workloads. Link-local addresses must be listed here.
	Allowed []netip.Prefix
	// Local returns the addresses of this machine besides loopback. nil means those of its
	// network interfaces.
	Local func() ([]netip.Addr, error)
	// anywhere permits all addresses. It serves to find other faults.
	anywhere bool
}

// typePrefix begins the type URLs of Envoy.
const typePrefix = "type.googleapis.com/"

// maxDepth is the maximum nesting depth of messages. Envoy's decoder reads no deeper, and then
// refuses the whole answer that has such a resource, with everything else in it. Envoy counts
// anew in each Any; no configuration that anybody needs comes near the limit even so.
const maxDepth = 100

// These are the names of what the machine's own files replace, and of fields with exceptions.
const (
	fileLog   = "envoy.extensions.access_loggers.file.v3.FileAccessLog"
	stdoutLog = "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
	trustedCA = "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.trusted_ca"
	// library may only name our own library, which the agent locates.
	library = "envoy.extensions.dynamic_modules.v3.DynamicModuleConfig.name"
	// golangLibrary is replaced by the machine's own library.
	golangLibrary = golangConfig + ".library_path"
	// golangConfig and golangPlugin carry the configuration of the filter to a library.
	golangConfig = "envoy.extensions.filters.http.golang.v3alpha.Config"
	golangPlugin = "envoy.extensions.filters.http.golang.v3alpha.RouterPlugin"
	// filename is permitted in trustedCA.
	filename = "envoy.config.core.v3.DataSource.filename"
)

// refused are the messages and fields through which configuration would reach things that
// belong to the machine, with a description of what they name.
var refused = map[protoreflect.FullName]string{
	filename: "a file",
	"envoy.config.core.v3.DataSource.environment_variable":          "a variable of the environment",
	"envoy.config.core.v3.RemoteDataSource":                         "something to download",
	"envoy.config.core.v3.WatchedDirectory":                         "a directory",
	"envoy.config.core.v3.PathConfigSource":                         "a file of configuration",
	"envoy.config.core.v3.ConfigSource.path":                        "a file of configuration",
	"envoy.config.core.v3.ApiConfigSource":                          "another source of configuration",
	"envoy.config.core.v3.GrpcService.GoogleGrpc":                   "files of credentials",
	"envoy.config.core.v3.Pipe":                                     "a socket",
	"envoy.config.core.v3.SocketAddress.network_namespace_filepath": "a network namespace",
	"envoy.config.core.v3.HealthCheck.event_log_path":               "a file",
	"envoy.type.tracing.v3.CustomTag.Environment":                   "a variable of the environment",
	"envoy.config.trace.v3.DynamicOtConfig":                         "a library",
	"envoy.config.trace.v3.LightstepConfig.access_token_file":       "a file",
	"envoy.extensions.transport_sockets.tls.v3.TlsKeyLog":           "a file for keys",
	"xds.type.v3.TypedStruct":                                       "an extension that cannot be looked into",
	"udpa.type.v1.TypedStruct":                                      "an extension that cannot be looked into",
}

// Names reports whether a field or message is known to name something that belongs to the
// machine.
func Names(name protoreflect.FullName) bool {
	_, is := refused[name]
	return is || name == fileLog || name == library || name == golangLibrary
}

// Admit returns a resource as this machine accepts it: the same bytes, or the bytes with the
// machine's own files in place of others. The error says what the resource must not name, or
// what cannot be inspected.
func (b Bounds) Admit(typeURL string, body []byte) (own []byte, err error) {
	b = b.once()
	w := &walk{bounds: b}
	if err := w.any(typeURL, body, 0); err != nil {
		return nil, err
	}
	if !w.foreign {
		return body, nil
	}
	return b.replace(typeURL, body)
}

// walk inspects a whole message in its wire form without decoding it. Most configuration names
// nothing of the machine, and route tables are large.
type walk struct {
	bounds Bounds
	// foreign says that there is something to replace.
	foreign bool
	// path are the fields that lead to the inspected field.
	path []protoreflect.Name
	// from counts the fields in path that say where Envoy listens or connects from.
	from int
	// caller is the field that says whom an extension of Envoy calls, such as [asking], and depth
	// is the length of path there. caller is empty elsewhere.
	caller protoreflect.FullName
	depth  int
	// redirected says that the value of a connection is the one by which a connection with direct
	// access has its cluster, and nothing that a client chooses.
	redirected bool
}

// any inspects the content of an Any, or a whole resource.
func (w *walk) any(typeURL string, body []byte, depth int) error {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return fmt.Errorf("it holds an extension of a type that this proxy's agent does not know (%q)", typeURL)
	}
	md := t.Descriptor()
	if err := w.bounds.otherWay(md); err != nil {
		return err
	}
	switch md.FullName() {
	case stdoutLog:
		w.foreign = w.foreign || w.bounds.AccessLog != ""
	case fileLog:
		path, err := last(md, body, 1)
		if err != nil {
			return err
		}
		w.foreign = w.foreign || w.bounds.AccessLog == "" || string(path) != w.bounds.AccessLog
	}
	return w.message(md, body, false, depth)
}

// message inspects the fields of a message. roots says that the message may name the file of
// the authorities.
func (w *walk) message(md protoreflect.MessageDescriptor, body []byte, roots bool, depth int) error {
	name := md.FullName()
	if what, is := refused[name]; is {
		return unnamed(what, name)
	}
	if err := w.leads(md, body); err != nil {
		return err
	}
	switch {
	case depth > maxDepth:
		return errors.New("its messages lie too deep in each other")
	case name == "google.protobuf.Any":
		return w.packed(body, depth)
	}
	var once []protowire.Number
	return each(md, body, func(fd protoreflect.FieldDescriptor, value []byte) error {
		w.path = append(w.path, fd.Name())
		defer func() { w.path = w.path[:len(w.path)-1] }()
		switch fd.Kind() {
		case protoreflect.MessageKind:
			// A decoder merges two occurrences of a singular message. The type from one Any
			// could then be combined with the content of another.
			if !fd.IsList() && !fd.IsMap() {
				if slices.Contains(once, fd.Number()) {
					return errMalformed
				}
				once = append(once, fd.Number())
			}
			name := fd.FullName()
			switch name {
			case ofListener, ofRoute:
				return told(name, value)
			case golangConfig + ".plugin_config", golangPlugin + ".config":
				return toldGo(name, value)
			}
			if name == oldByClient {
				return chosen(name)
			}
			if from[name] {
				w.from++
				defer func() { w.from-- }()
			}
			if name == asking || name == logging {
				w.caller, w.depth = name, len(w.path)
				defer func() { w.caller = "" }()
			}
			return w.message(fd.Message(), value, name == trustedCA, depth+1)
		case protoreflect.StringKind, protoreflect.BytesKind:
			return w.text(fd.FullName(), value, roots)
		default:
			return nil
		}
	})
}

// packed inspects an Any. An Any without a type is empty.
func (w *walk) packed(body []byte, depth int) error {
	url, value, err := unpack(body)
	if err != nil || len(url) == 0 {
		return err
	}
	return w.any(string(url), value, depth+1)
}

func unnamed(what string, by protoreflect.FullName) error {
	return fmt.Errorf("it names %s of the proxy's machine, which only its agent may (%s)", what, by)
}
