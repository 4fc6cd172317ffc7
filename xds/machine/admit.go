package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Bounds are what configuration may have of a machine. The zero value has no files, and
// demands nothing of addresses but that they are not link-local.
type Bounds struct {
	// AccessLog is where an access log goes; empty for standard output.
	AccessLog string
	// Roots are the authorities against which certificates of servers are checked;
	// empty if there is no such file.
	Roots string
	// Admin and Status are the ports of this machine at which Envoy's administration and the
	// agent's status are, 0 for none: nothing leads there.
	Admin, Status uint16
	// Workloads demands that the clusters of the proxy's own workloads lead to this machine
	// or to an allowed address.
	Workloads bool
	// Allowed are further addresses of workloads. Link-local ones must be among them.
	Allowed []netip.Prefix
	// Local returns the addresses of this machine beside loopback; nil for those of its
	// network interfaces.
	Local func() ([]netip.Addr, error)
	// anywhere has addresses lead where they like, to find what else is wrong.
	anywhere bool
}

// typePrefix begins the type URLs of Envoy.
const typePrefix = "type.googleapis.com/"

// maxDepth bounds how deep messages lie in each other.
const maxDepth = 256

// Names of what is replaced by the machine's own.
const (
	fileLog   = "envoy.extensions.access_loggers.file.v3.FileAccessLog"
	stdoutLog = "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog"
	trustedCA = "envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext.trusted_ca"
	// library is allowed for our own, which lies where the agent says.
	library = "envoy.extensions.dynamic_modules.v3.DynamicModuleConfig.name"
	// filename is allowed in trustedCA.
	filename = "envoy.config.core.v3.DataSource.filename"
)

// refused are the messages and fields by which configuration would reach what is the
// machine's, with what they name.
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
	"envoy.config.trace.v3.DynamicOtConfig":                         "a library",
	"envoy.config.trace.v3.LightstepConfig.access_token_file":       "a file",
	"envoy.extensions.transport_sockets.tls.v3.TlsKeyLog":           "a file for keys",
	"xds.type.v3.TypedStruct":                                       "an extension that cannot be looked into",
	"udpa.type.v1.TypedStruct":                                      "an extension that cannot be looked into",
}

// Names reports whether a field or message is known to name what is the machine's.
func Names(name protoreflect.FullName) bool {
	_, is := refused[name]
	return is || name == fileLog || name == library
}

// Admit returns a resource as this machine takes it: the same bytes, or those with the
// machine's own files in the place of others. The error says what it names that nobody
// else may name, and what cannot be looked into.
func (b Bounds) Admit(typeURL string, body []byte) (own []byte, err error) {
	w := &walk{bounds: b}
	if err := w.any(typeURL, body, 0); err != nil {
		return nil, err
	}
	if !w.foreign {
		return body, nil
	}
	return b.replace(typeURL, body)
}

// walk looks at all of a message as it is on the wire, without decoding it: most is
// configuration that names nothing, and route tables are large.
type walk struct {
	bounds Bounds
	// foreign says that there is something to replace.
	foreign bool
	// path are the fields that lead to what is looked at.
	path []protoreflect.Name
	// from counts those of them that say where Envoy listens or connects from.
	from int
}

// any looks at the content of an Any, or at a whole resource.
func (w *walk) any(typeURL string, body []byte, depth int) error {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		return fmt.Errorf("it holds an extension of a type that this proxy's agent does not know (%q)", typeURL)
	}
	md := t.Descriptor()
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

// message looks at the fields of a message. roots says that the file that it may name
// is that of the authorities.
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
			// Two of a message that stands once are merged by who decodes them: the type of
			// one Any would come to the content of another.
			if !fd.IsList() && !fd.IsMap() {
				if slices.Contains(once, fd.Number()) {
					return errMalformed
				}
				once = append(once, fd.Number())
			}
			name := fd.FullName()
			if name == ofListener || name == ofRoute {
				return told(name, value)
			}
			if name == oldByClient {
				return chosen(name)
			}
			if from[name] {
				w.from++
				defer func() { w.from-- }()
			}
			return w.message(fd.Message(), value, name == trustedCA, depth+1)
		case protoreflect.StringKind, protoreflect.BytesKind:
			return w.text(fd.FullName(), value, roots)
		default:
			return nil
		}
	})
}

// packed looks into an Any. One without a type is empty.
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
