package machine_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	modulev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/dynamic_modules/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
)

// refusal returns the error for a whole resource, or an empty text if it is accepted.
func refusal(t *testing.T, m proto.Message) string {
	t.Helper()
	if _, err := admit(t, machine.Bounds{}, m); err != nil {
		return err.Error()
	}
	return ""
}

// TestNoVariableIsFormatted: Envoy inserts environment variables into every text that is a
// format, so a header of each answer could contain a password of the machine.
func TestNoVariableIsFormatted(t *testing.T) {
	header := func(value string) proto.Message {
		return &routev3.RouteConfiguration{ResponseHeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "k", Value: value}}}}
	}
	matches := func(pattern string) proto.Message {
		return &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Routes: []*routev3.Route{{Match: &routev3.RouteMatch{
			PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: pattern}},
		}}}}}}
	}
	lines := func(value any) proto.Message {
		s, err := structpb.NewStruct(map[string]any{"a": map[string]any{"b": []any{value}}})
		if err != nil {
			t.Fatal(err)
		}
		return logging(t, &streamv3.StdoutAccessLog{AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{
			LogFormat: &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: s}},
		}})
	}
	const variable = "%ENVIRONMENT(TOKEN)%"
	for name, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"a header":                {header(variable), "(response_headers_to_add.header.value)"},
		"within":                  {header("a %REQ(B)% " + variable + " c"), "(response_headers_to_add.header.value)"},
		"cut short":               {header("%ENVIRONMENT(TOKEN):3%"), "(response_headers_to_add.header.value)"},
		"right after another":     {header("%REQ(B)%" + variable), "(response_headers_to_add.header.value)"},
		"right after a percent":   {header("%%" + variable), "(response_headers_to_add.header.value)"},
		"text that is no command": {header("%%ENVIRONMENT(TOKEN)%%"), ""},
		"other commands":          {header("%REQ(B)% %START_TIME(%s)% 100%%"), ""},
		"without an end":          {header("%ENVIRONMENT(TOKEN"), "response_headers_to_add"},
		"after no command":        {header("100% " + variable), "response_headers_to_add"},
		"a pattern":               {matches("/" + variable), ""},
		"a log in JSON":           {lines(variable), "json_format.fields.value.struct_value.fields.value.list_value.values.string_value)"},
		"numbers in JSON":         {lines(3), ""},
		"an extension":            {route(nil, map[string]*anypb.Any{"f": pack(t, wrapperspb.String(variable))}), "typed_per_filter_config.value.value)"},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestNoVariableIsTraced: a tag of a trace can be a variable, without any format.
func TestNoVariableIsTraced(t *testing.T) {
	tagged := func(tag *tracingv3.CustomTag) proto.Message {
		return &hcmv3.HttpConnectionManager{Tracing: &hcmv3.HttpConnectionManager_Tracing{CustomTags: []*tracingv3.CustomTag{tag}}}
	}
	variable := tagged(&tracingv3.CustomTag{Type: &tracingv3.CustomTag_Environment_{Environment: &tracingv3.CustomTag_Environment{Name: "TOKEN"}}})
	if got := refusal(t, variable); !strings.Contains(got, "a variable of the environment") {
		t.Errorf("%q", got)
	}
	if got := refusal(t, tagged(&tracingv3.CustomTag{Type: &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: "x"}}})); got != "" {
		t.Errorf("a literal tag: %q", got)
	}
}

// TestFilterHasItsOwnSettings: the machine's own file says what the filter connects to, and
// which file is its credential.
func TestFilterHasItsOwnSettings(t *testing.T) {
	const inline = `{"settings":{"control_plane":{"address":"thief:1","ca_file":"/ca","token_file":"/etc/shadow","node":"n"},"cache":{}}}`
	ours := &modulev3.DynamicModuleConfig{Name: contract.FilterName}
	with := func(config *anypb.Any) proto.Message {
		return &hcmv3.HttpConnectionManager{HttpFilters: []*hcmv3.HttpFilter{{ConfigType: &hcmv3.HttpFilter_TypedConfig{
			TypedConfig: pack(t, &filterv3.DynamicModuleFilter{DynamicModuleConfig: ours, FilterConfig: config}),
		}}}}
	}
	onRoute := func(config *anypb.Any) proto.Message {
		return route(nil, map[string]*anypb.Any{"f": pack(t, &filterv3.DynamicModuleFilterPerRoute{DynamicModuleConfig: ours, FilterConfig: config})})
	}
	tree, err := structpb.NewStruct(map[string]any{"settings": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		got  proto.Message
		want string // empty: it is accepted
	}{
		"none":            {with(nil), ""},
		"an empty one":    {with(&anypb.Any{}), ""},
		"no settings":     {with(pack(t, wrapperspb.String(`{"listener_strips":true}`))), ""},
		"settings":        {with(pack(t, wrapperspb.String(inline))), "settings of the filter"},
		"in other case":   {with(pack(t, wrapperspb.String(strings.Replace(inline, "settings", "Settings", 1)))), "filter"},
		"not to be read":  {with(pack(t, wrapperspb.String("{"))), "filter"},
		"as bytes":        {with(pack(t, wrapperspb.Bytes([]byte(inline)))), "cannot be looked into"},
		"as a tree":       {with(pack(t, tree)), "cannot be looked into"},
		"without a type":  {with(&anypb.Any{Value: []byte(inline)}), "cannot be looked into"},
		"a chain":         {onRoute(pack(t, wrapperspb.String(`{"route":"%ENVIRONMENT(A)%"}`))), ""},
		"a chain in tree": {onRoute(pack(t, tree)), "cannot be looked into"},
	} {
		if got := refusal(t, c.got); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
