package mesh

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// VirtualOutbound is the spec of a rule that gives inbounds host names and ports by their tags.
// Transparent proxies of the mesh reach the inbounds by these (requirement "VirtualOutbound").
type VirtualOutbound struct {
	model.Labelled
	// Selectors select inbounds by their tags.
	Selectors []Selector           `json:"selectors,omitempty"`
	Conf      *VirtualOutboundConf `json:"conf,omitempty"`
}

// VirtualOutboundConf says what the selected inbounds are called. Host and Port are templates
// over the names of the parameters; see [NameTemplate].
type VirtualOutboundConf struct {
	Host       string          `json:"host,omitempty"`
	Port       string          `json:"port,omitempty"`
	Parameters []NameParameter `json:"parameters,omitempty"`
}

// NameParameter gives templates the value of a tag. An empty TagKey is that of the name.
type NameParameter struct {
	Name   string `json:"name,omitempty"`
	TagKey string `json:"tagKey,omitempty"`
}

// SelectedSources implements model.Selecting: a name has no sources.
func (v *VirtualOutbound) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting: the proxies with the inbounds.
func (v *VirtualOutbound) SelectedDestinations() []map[string]string { return Matched(v.Selectors) }

// Key returns the key of the tag whose value the parameter has.
func (p *NameParameter) Key() string {
	if p.TagKey == "" {
		return p.Name
	}
	return p.TagKey
}

const (
	textUndefined   = "has to be defined"
	textNoService   = "must contain a parameter with " + TagService + " as a tagKey"
	textNameTaken   = "name is already used"
	textNoName      = "must consist of alphanumeric characters to be used as a gotemplate key"
	textNoTagName   = "must be a valid tag name"
	textEvaluation  = "template pre evaluation failed with error=%q"
	maxParameters   = 32
	textManyEntries = "must not have more than 32 elements"
)

var templateKey = regexp.MustCompile(`^[a-zA-Z0-9]+$`)

// VirtualOutbounds describes the resources. They are no policies: nothing is chosen, each one
// counts for every inbound that it selects.
var VirtualOutbounds = model.Describe(VirtualOutbound{}, model.Kind{
	Name: "virtual_outbound", Path: "virtual-outbounds", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "VirtualOutbound", Singular: "Virtual Outbound", Plural: "Virtual Outbounds", Listed: true,
		Validate: func(spec any) []fault.Violation { return spec.(*VirtualOutbound).validate() },
	},
})

func (v *VirtualOutbound) validate() []fault.Violation {
	var vs violations
	vs.join(CheckAny("selectors", v.Selectors))
	if v.Conf == nil {
		vs.add("conf", textUndefined)
		return vs
	}
	vs.parameters(v.Conf.Parameters)
	if len(vs) > 0 {
		// What is wrong with a parameter would be repeated by the templates that use it.
		vs.required("conf.host", v.Conf.Host)
		vs.required("conf.port", v.Conf.Port)
		return vs
	}
	vs.template("conf.host", v.Conf.Host, "dummy", v.Conf.Parameters, checkHost)
	vs.template("conf.port", v.Conf.Port, "1", v.Conf.Parameters, func(text string) error { _, err := portOf(text); return err })
	return vs
}

func (vs *violations) required(path, text string) {
	if text == "" {
		vs.add(path, textUndefined)
	}
}

func (vs *violations) parameters(ps []NameParameter) {
	const path = "conf.parameters"
	if len(ps) > maxParameters {
		vs.add(path, textManyEntries)
		return
	}
	service, taken := false, map[string]bool{}
	for i := range ps {
		p, at := &ps[i], indexed(path, i)
		switch {
		case !templateKey.MatchString(p.Name):
			vs.add(at+".name", textNoName)
		case taken[p.Name]:
			vs.add(at+".name", textNameTaken)
		}
		taken[p.Name] = true
		if p.TagKey != "" && (len(p.TagKey) > maxTag || !tagName.MatchString(p.TagKey)) {
			vs.add(at+".tagKey", textNoTagName)
		}
		service = service || p.Key() == TagService
	}
	if !service {
		vs.add(path, textNoService)
	}
}

// template checks a template by what it makes of parameters that all have one value.
func (vs *violations) template(path, text, value string, ps []NameParameter, check func(string) error) {
	if text == "" {
		vs.add(path, textUndefined)
		return
	}
	values := make(map[string]string, len(ps))
	for i := range ps {
		values[ps[i].Name] = value
	}
	t, err := ParseNameTemplate(text)
	var made string
	if err == nil {
		made, err = t.Execute(values)
	}
	if err == nil {
		err = check(made)
	}
	if err != nil {
		vs.add(path, fmt.Sprintf(textEvaluation, err.Error()))
	}
}

// hostLabels matches names that resolvers look up. Underscores occur in names of services.
var hostLabels = regexp.MustCompile(`^[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?)*$`)

// maxHost is the maximum length of a name without the dot at its end (RFC 1035 section 3.1).
const maxHost = 253

// IsHost reports whether a text is a host name in the form that the mesh keeps: lower case,
// without a dot at its end, and nothing that a resolver reads as an address. Names of the own
// machine are none (RFC 6761 section 6.3).
func IsHost(text string) bool {
	return len(text) <= maxHost && hostLabels.MatchString(text) && !endsInNumber(text) &&
		text != ownMachine && !strings.HasSuffix(text, "."+ownMachine)
}

const ownMachine = "localhost"

func checkHost(text string) error {
	if !IsHost(foldHost(text)) {
		return fmt.Errorf("%q is not a DNS name", text)
	}
	return nil
}

func portOf(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port: a port is a number in the range [1, 65535]", text)
	}
	return uint32(n), nil
}
