package mesh

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func virtual(host, port string, parameters ...NameParameter) *VirtualOutbound {
	return &VirtualOutbound{
		Selectors: []Selector{{Match: Tags{TagService: AnyValue}}},
		Conf:      &VirtualOutboundConf{Host: host, Port: port, Parameters: parameters},
	}
}

var (
	service = NameParameter{Name: "service", TagKey: TagService}
	port    = NameParameter{Name: "port"}
)

// TestVirtualOutboundViolations has the texts that clients compare.
func TestVirtualOutboundViolations(t *testing.T) {
	const evaluation = "template pre evaluation failed with error="
	for name, c := range map[string]struct {
		spec *VirtualOutbound
		want []string
	}{
		"good":            {virtual("{{.service}}.mesh", "{{.port}}", service, port), nil},
		"upper case":      {virtual("{{.service}}.Mesh", "80", service), nil},
		"functions":       {virtual(`{{.service | replace "_" "." | lower | trimPrefix "x" | trimSuffix "y"}}.mesh`, `{{if eq .service "a"}}80{{else}}81{{end}}`, service), nil},
		"empty":           {&VirtualOutbound{}, []string{"selectors: must have at least one element", "conf: has to be defined"}},
		"no tags":         {&VirtualOutbound{Selectors: []Selector{{}}, Conf: virtual("a", "1", service).Conf}, []string{"selectors[0].match: must have at least one tag"}},
		"no conf members": {virtual("", ""), []string{"conf.parameters: must contain a parameter with mesh.io/service as a tagKey", "conf.host: has to be defined", "conf.port: has to be defined"}},
		"no templates":    {virtual("", "", service), []string{"conf.host: has to be defined", "conf.port: has to be defined"}},
		"name twice":      {virtual("a", "1", service, NameParameter{"service", "x"}), []string{"conf.parameters[1].name: name is already used"}},
		"bad key":         {virtual("a", "1", service, NameParameter{"a-b", "x"}), []string{"conf.parameters[1].name: must consist of alphanumeric characters to be used as a gotemplate key"}},
		"bad tag":         {virtual("a", "1", service, NameParameter{"x", "a b"}), []string{"conf.parameters[1].tagKey: must be a valid tag name"}},
		"unknown key":     {virtual("{{.other}}", "1", service), []string{"conf.host: " + evaluation + `"template: template:1:2: executing \"template\" at <.other>: map has no entry for key \"other\""`}},
		"no template":     {virtual("{{", "1", service), []string{"conf.host: " + evaluation + `"template: template:1: unclosed action"`}},
		"no host":         {virtual("{{.service}}..mesh", "1", service), []string{"conf.host: " + evaluation + `"\"dummy..mesh\" is not a DNS name"`}},
		"an address":      {virtual("10.0.0.1", "1", service), []string{"conf.host: " + evaluation + `"\"10.0.0.1\" is not a DNS name"`}},
		"no port":         {virtual("a", "{{.service}}", service), nil},
		"port too large":  {virtual("a", "65536", service), []string{"conf.port: " + evaluation + `"\"65536\" is not a port: a port is a number in the range [1, 65535]"`}},
		"port 0":          {virtual("a", "0", service), []string{"conf.port: " + evaluation + `"\"0\" is not a port: a port is a number in the range [1, 65535]"`}},
		"a format":        {virtual(`{{printf "%1000000000d" 1}}`, "1", service), []string{"conf.host: " + evaluation + `"function \"printf\" is not available; these are: lower, replace, trimPrefix, trimSuffix, eq, ne, and, or, not"`}},
		"a loop":          {virtual("{{range 1000000000}}{{end}}a", "1", service), []string{"conf.host: " + evaluation + `"{{range 1000000000}}{{end}} is not available"`}},
		"a variable":      {virtual("{{$x := .service}}a", "1", service), []string{"conf.host: " + evaluation + `"a template cannot have variables"`}},
		"a definition":    {virtual(`{{define "x"}}{{end}}a`, "1", service), []string{"conf.host: " + evaluation + `"a template cannot define others"`}},
		"growth": {virtual(`{{.service`+strings.Repeat(`|replace "" "0123456789"`, 30)+`}}`, "1", service),
			[]string{"conf.host: " + evaluation + `"template: template:1:`}},
		"long": {virtual(strings.Repeat("a", 1025), "1", service), []string{"conf.host: " + evaluation + `"a template has at most 1024 characters"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, v := range c.spec.validate() {
				got = append(got, v.Path+": "+v.Message)
			}
			if len(c.want) == 1 && len(got) == 1 && strings.HasSuffix(c.want[0], "template:1:") && strings.HasPrefix(got[0], c.want[0]) {
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNames: an inbound has a name if it has all tags that the templates need, and what they make
// is a host and a port.
func TestNames(t *testing.T) {
	version := NameParameter{Name: "v", TagKey: "version"}
	vo := virtual(`{{.service}}{{if eq .v "v2"}}-next{{end}}.Shop.`, "{{.port}}", service, version, port)
	vo.Selectors = []Selector{{Match: Tags{"team": "a"}}, {Match: Tags{TagService: "backend"}}}
	all := Tags{TagService: "backend", "version": "v2", "port": "8080", "zone": "z"}
	for name, c := range map[string]struct {
		tags Tags
		want *Name
	}{
		"all tags":      {all, &Name{"backend-next.shop", 8080, Tags{TagService: "backend", "version": "v2", "port": "8080"}}},
		"a tag lacks":   {Tags{TagService: "backend", "version": "v1"}, nil},
		"no port":       {Tags{TagService: "backend", "version": "v1", "port": "http"}, nil},
		"no host":       {Tags{TagService: "backend", "version": "v1", "port": "1", "team": "a", TagZone: "x"}, &Name{"backend.shop", 1, Tags{TagService: "backend", "version": "v1", "port": "1"}}},
		"not selected":  {Tags{TagService: "web", "version": "v1", "port": "1"}, nil},
		"odd service":   {Tags{TagService: "a:b", "version": "v1", "port": "1", "team": "a"}, nil},
		"other's match": {Tags{TagService: "web", "version": "v1", "port": "1", "team": "a"}, &Name{"web.shop", 1, Tags{TagService: "web", "version": "v1", "port": "1"}}},
	} {
		got, ok := vo.Namer().Name(c.tags)
		if ok != (c.want != nil) {
			t.Errorf("%s: named %v: %t", name, got, ok)
			continue
		}
		if c.want != nil {
			if diff := cmp.Diff(*c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if _, ok := (&VirtualOutbound{}).Namer().Name(all); ok {
		t.Error("a rule without a conf names inbounds")
	}
}

// FuzzNameTemplate: whatever a template says, it ends and makes little.
func FuzzNameTemplate(f *testing.F) {
	for _, text := range []string{"{{.a}}.mesh", `{{replace "" .a .a}}`, "{{range .a}}{{end}}", `{{if .a}}x{{else if .b}}y{{end}}`, `{{block "x" .}}{{end}}`, "{{with .a}}{{.}}{{end}}", "{{. | lower}}", `{{len .a}}`} {
		f.Add(text, "value")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		tmpl, err := ParseNameTemplate(text)
		if err != nil {
			return
		}
		if made, err := tmpl.Execute(map[string]string{"a": value, "b": ""}); err == nil && len(made) > maxMade {
			t.Errorf("%q makes %d characters", text, len(made))
		}
	})
}
