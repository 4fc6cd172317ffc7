package machine

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/scraping"
)

// ways are the modes of the filter by the packages whose messages tell Envoy of it, in listeners
// and in route tables.
var ways = map[protoreflect.FullName]contract.Mode{
	"envoy.extensions.filters.http.dynamic_modules.v3": contract.ModeModule,
	"envoy.extensions.filters.http.ext_authz.v3":       contract.ModeExtAuthz,
	"envoy.extensions.filters.http.golang.v3alpha":     contract.ModeGolang,
}

// otherWay returns an error for an extension that is the filter in another way than this proxy
// has it. What says which chain a route has is in the form of one mode: a filter of another mode
// does not see it, and would let pass whom the chain refuses.
func (b Bounds) otherWay(md protoreflect.MessageDescriptor) error {
	of, is := ways[md.ParentFile().Package()]
	if !is || b.Mode == nil || of == *b.Mode {
		return nil
	}
	return fmt.Errorf("it has the filter of filter.mode %s (%s), and this proxy runs with filter.mode %s", of, md.FullName(), *b.Mode)
}

const (
	// asking is where Envoy's filter names whom it asks about each request.
	asking protoreflect.FullName = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz.grpc_service"
	// logging is where Envoy's logger names whom it sends lines to.
	logging protoreflect.FullName = "envoy.extensions.access_loggers.open_telemetry.v3.OpenTelemetryAccessLogConfig.grpc_service"
	// asked is the name of a cluster there, two fields below.
	asked protoreflect.FullName = "envoy.config.core.v3.GrpcService.EnvoyGrpc.cluster_name"
)

// decides reports whether a text is the name of the authorization service's cluster in a place
// that would lead somebody else there than the filter that asks it. Whoever is led there has it
// decide by chains of his own choice, and learns from the answers which credentials are good.
func (w *walk) decides(field protoreflect.FullName, value []byte) bool {
	return string(value) == contract.AuthzCluster && !w.calls(field, asking)
}

// logs reports whether a text is the name of the cluster of the agent's receiver in a place that
// would lead somebody else there than Envoy's logger. Whoever is led there could forge lines.
func (w *walk) logs(field protoreflect.FullName, value []byte) bool {
	return string(value) == logsink.Cluster && !w.calls(field, logging)
}

// toMetrics is where a route table names the cluster of a route.
var toMetrics = []protoreflect.Name{"virtual_hosts", "routes", "route", "cluster"}

// shows reports whether a text is the name of the cluster of the agent's page of metrics in any
// other place. A listener that led there by itself would show the page to whoever may connect.
func (w *walk) shows(value []byte) bool {
	return string(value) == scraping.Cluster && !slices.Equal(w.path, toMetrics)
}

// calls reports whether a field names the cluster that a caller calls.
func (w *walk) calls(field, caller protoreflect.FullName) bool {
	return field == asked && w.caller == caller && len(w.path) == w.depth+2
}

// byHeader are fields with which each request names the cluster that it is led to, in a header.
// No text of the configuration shows then where it leads.
var byHeader = map[protoreflect.FullName]bool{
	"envoy.config.route.v3.RouteAction.cluster_header":                     true,
	"envoy.config.route.v3.RouteAction.RequestMirrorPolicy.cluster_header": true,
	"envoy.config.route.v3.WeightedCluster.ClusterWeight.cluster_header":   true,
}

func choosesCluster(by protoreflect.FullName) error {
	return fmt.Errorf("it has each request choose the cluster that it is led to (%s)", by)
}
