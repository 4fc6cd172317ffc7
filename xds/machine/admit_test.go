package machine_test

import (
	"bytes"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/dynamic_modules/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	typedv3 "github.com/cncf/xds/go/xds/type/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
)

const own, roots = "/var/log/own", "/etc/own.pem"

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func bytesOf(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func admit(t testing.TB, f machine.Bounds, m proto.Message) ([]byte, error) {
	t.Helper()
	return f.Admit("type.googleapis.com/"+string(m.ProtoReflect().Descriptor().FullName()), bytesOf(t, m))
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

var format = &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{
	TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "a line"}},
}}

func toFile(path string) proto.Message {
	return &filev3.FileAccessLog{Path: path, AccessLogFormat: &filev3.FileAccessLog_LogFormat{LogFormat: format}}
}

func toStdout() proto.Message {
	return &streamv3.StdoutAccessLog{AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: format}}
}

// logging returns a listener with a logger, in a connection manager and in the listener
// itself.
func logging(t testing.TB, logger proto.Message) *listenerv3.Listener {
	name := "envoy.access_loggers.stdout"
	if _, is := logger.(*filev3.FileAccessLog); is {
		name = "envoy.access_loggers.file"
	}
	logs := []*accesslogv3.AccessLog{{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pack(t, logger)}}}
	return &listenerv3.Listener{Name: "in", AccessLog: logs, FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, &hcmv3.HttpConnectionManager{StatPrefix: "in", AccessLog: logs})},
	}}}}}
}

// trusting returns a cluster that checks certificates against a file.
func trusting(t testing.TB, path string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: "c", TransportSocket: &corev3.TransportSocket{ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: pack(t, &tlsv3.UpstreamTlsContext{Sni: "a", CommonTlsContext: &tlsv3.CommonTlsContext{
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: file(path)}},
		}}),
	}}}
}

// TestOwnFilesStandForOthers: whatever file is named for a log or for roots, the machine's own
// file is used.
func TestOwnFilesStandForOthers(t *testing.T) {
	for name, c := range map[string]struct {
		files     machine.Bounds
		got, want proto.Message
	}{
		"standard output, and there is a file": {machine.Bounds{AccessLog: own}, logging(t, toStdout()), logging(t, toFile(own))},
		"standard output":                      {machine.Bounds{}, logging(t, toStdout()), logging(t, toStdout())},
		"the file":                             {machine.Bounds{AccessLog: own}, logging(t, toFile(own)), logging(t, toFile(own))},
		"another file":                         {machine.Bounds{AccessLog: own}, logging(t, toFile("/etc/cron.d/x")), logging(t, toFile(own))},
		"a file, and there is none":            {machine.Bounds{}, logging(t, toFile("/etc/cron.d/x")), logging(t, toStdout())},
		"no path":                              {machine.Bounds{}, logging(t, toFile("")), logging(t, toStdout())},
		"the roots":                            {machine.Bounds{Roots: roots}, trusting(t, roots), trusting(t, roots)},
		"other roots":                          {machine.Bounds{Roots: roots}, trusting(t, "/tmp/thief.pem"), trusting(t, roots)},
	} {
		body, err := admit(t, c.files, c.got)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := c.want.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(body, got); err != nil || !proto.Equal(got, c.want) {
			t.Errorf("%s: %v\n%v\nwant\n%v", name, err, got, c.want)
		}
		if before := bytesOf(t, c.got); proto.Equal(c.got, c.want) && !bytes.Equal(body, before) {
			t.Errorf("%s: what need not change is encoded anew", name)
		}
	}
}

// TestAlike: what an agent replaces with its own files makes no difference; any other change
// does.
func TestAlike(t *testing.T) {
	named := func(l *listenerv3.Listener, name string) proto.Message { l.StatPrefix = name; return l }
	for name, c := range map[string]struct {
		sent, held proto.Message
		want       bool
	}{
		"its own file for standard output": {logging(t, toStdout()), logging(t, toFile(own)), true},
		"its own file for another":         {logging(t, toFile("/x")), logging(t, toFile(own)), true},
		"standard output for a file":       {logging(t, toFile("/x")), logging(t, toStdout()), true},
		"its own roots":                    {trusting(t, "/x"), trusting(t, roots), true},
		"roots where there were none":      {&clusterv3.Cluster{Name: "c"}, trusting(t, roots), false},
		"another name":                     {named(logging(t, toStdout()), "a"), named(logging(t, toFile(own)), "b"), false},
		"another type":                     {&listenerv3.Listener{Name: "a"}, &clusterv3.Cluster{Name: "a"}, false},
		"what no type has":                 {&anypb.Any{TypeUrl: "x/of.nobody"}, &anypb.Any{TypeUrl: "x/of.nobody"}, false},
	} {
		packed := func(m proto.Message) *anypb.Any {
			if a, is := m.(*anypb.Any); is {
				return a
			}
			return pack(t, m)
		}
		sent, held := packed(c.sent), packed(c.held)
		before := proto.Clone(sent)
		if got := machine.Alike(sent, held); got != c.want || !proto.Equal(before, sent) {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// address puts an address into an assignment.
func address(a *corev3.Address) proto.Message {
	return &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a}},
	}}}}}
}

// source gives a listener a source for its routes.
func source(t testing.TB, c *corev3.ConfigSource) proto.Message {
	return &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, &hcmv3.HttpConnectionManager{
			RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: c}},
		})},
	}}}}}
}

// route returns a route table that answers requests itself.
func route(body *corev3.DataSource, config map[string]*anypb.Any) proto.Message {
	return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{TypedPerFilterConfig: config, Routes: []*routev3.Route{{
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200, Body: body}},
	}}}}}
}

func module(t testing.TB, m *modulev3.DynamicModuleConfig) proto.Message {
	return route(nil, map[string]*anypb.Any{"f": pack(t, &filterv3.DynamicModuleFilterPerRoute{DynamicModuleConfig: m})})
}

// TestNothingElseOfTheMachineIsNamed covers files, sockets, variables, libraries, and content
// that cannot be inspected.
func TestNothingElseOfTheMachineIsNamed(t *testing.T) {
	secret := func(c *tlsv3.TlsCertificate) proto.Message {
		return &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: c}}
	}
	for name, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"addresses":                 {address(&corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "127.0.0.1"}}}), ""},
		"sockets":                   {address(&corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/run/docker.sock"}}}), "a socket"},
		"a network":                 {address(&corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{NetworkNamespaceFilepath: "/proc/1/ns/net"}}}), "a network namespace"},
		"ADS":                       {source(t, &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{}}), ""},
		"files of RDS":              {source(t, &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: "/x"}}}), "a file of configuration"},
		"another server":            {source(t, &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{}}}), "another source of configuration"},
		"a body":                    {route(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "no"}}, nil), ""},
		"a body's file":             {route(file("/etc/shadow"), nil), "a file"},
		"a variable":                {route(&corev3.DataSource{Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: "TOKEN"}}, nil), "a variable"},
		"a key":                     {secret(&tlsv3.TlsCertificate{PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "k"}}}), ""},
		"a key's file":              {secret(&tlsv3.TlsCertificate{PrivateKey: file("/k")}), "a file"},
		"a key's folder":            {secret(&tlsv3.TlsCertificate{WatchedDirectory: &corev3.WatchedDirectory{Path: "/"}}), "a directory"},
		"roots, and there are none": {trusting(t, "/x"), "it needs the certificate authorities of the proxy's machine, of which its agent has found no file: name one with --system-ca-file"},
		"the module":                {module(t, &modulev3.DynamicModuleConfig{Name: contract.FilterName}), ""},
		"another module":            {module(t, &modulev3.DynamicModuleConfig{Name: "../../tmp/x"}), "a library"},
		"a module's file": {module(t, &modulev3.DynamicModuleConfig{Module: &corev3.AsyncDataSource{
			Specifier: &corev3.AsyncDataSource_Local{Local: file("/tmp/x.so")},
		}}), "a file"},
		"a module from elsewhere": {module(t, &modulev3.DynamicModuleConfig{Module: &corev3.AsyncDataSource{
			Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{}},
		}}), "something to download"},
		"no extension":         {route(nil, map[string]*anypb.Any{"f": {}}), ""},
		"an unknown extension": {route(nil, map[string]*anypb.Any{"f": {TypeUrl: "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute"}}), "does not know"},
		"a hidden extension":   {route(nil, map[string]*anypb.Any{"f": pack(t, &typedv3.TypedStruct{TypeUrl: "lua"})}), "cannot be looked into"},
	} {
		body, err := admit(t, machine.Bounds{AccessLog: own}, c.got)
		switch {
		case c.want == "" && (err != nil || !bytes.Equal(body, bytesOf(t, c.got))):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestPiecesOfOneExtension: a decoder merges two occurrences of a message, and could so give
// the content of one extension the type of another.
func TestPiecesOfOneExtension(t *testing.T) {
	nest := func(path []protowire.Number, b []byte) []byte {
		for i := len(path) - 1; i >= 0; i-- {
			b = protowire.AppendBytes(protowire.AppendTag(nil, path[i], protowire.BytesType), b)
		}
		return b
	}
	value := nest([]protowire.Number{2}, bytesOf(t, toFile("/etc/cron.d/x")))
	typ := nest([]protowire.Number{1}, []byte("type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"))
	// This is Listener.access_log with AccessLog.typed_config, twice.
	log := append(nest([]protowire.Number{4}, value), nest([]protowire.Number{4}, typ)...)
	body := nest([]protowire.Number{22}, log)
	var merged listenerv3.Listener
	var logger filev3.FileAccessLog
	if err := proto.Unmarshal(body, &merged); err != nil || merged.GetAccessLog()[0].GetTypedConfig().UnmarshalTo(&logger) != nil || logger.GetPath() != "/etc/cron.d/x" {
		t.Fatalf("they are not merged: %v %v", err, &merged)
	}
	if own, err := (machine.Bounds{}).Admit("type.googleapis.com/envoy.config.listener.v3.Listener", body); err == nil {
		t.Errorf("it is taken: %q", own)
	}
	for name, broken := range map[string][]byte{"cut off": body[:len(body)-1], "no tag": {0xff}, "no message": bytes.Repeat([]byte{9}, 5)} {
		if _, err := (machine.Bounds{}).Admit("type.googleapis.com/envoy.config.listener.v3.Listener", broken); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// BenchmarkAdmit inspects a route table of a thousand routes with chains.
func BenchmarkAdmit(b *testing.B) {
	r := &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{}}}
	config := map[string]*anypb.Any{"f": pack(b, &filterv3.DynamicModuleFilterPerRoute{DynamicModuleConfig: &modulev3.DynamicModuleConfig{Name: contract.FilterName}})}
	for range 1000 {
		r.VirtualHosts[0].Routes = append(r.VirtualHosts[0].Routes, &routev3.Route{
			Match:                &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: "/a"}, Headers: []*routev3.HeaderMatcher{{Name: "h"}}},
			Action:               &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "c"}}},
			TypedPerFilterConfig: config,
		})
	}
	body := bytesOf(b, r)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := (machine.Bounds{}).Admit("type.googleapis.com/envoy.config.route.v3.RouteConfiguration", body); err != nil {
			b.Fatal(err)
		}
	}
}
