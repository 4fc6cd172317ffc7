package gateway

import (
	"encoding/json"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// UpstreamTarget is one address of an upstream.
type UpstreamTarget struct {
	// Upstream is the id of the upstream.
	Upstream string `json:"upstream" jsonschema_extras:"x-on-delete=cascade,x-refers-to=upstream"`
	// Target is host:port in the spelling of its author, always with the port. An address of
	// IP version 6 has all its digits.
	Target string `json:"target" jsonschema:"maxLength=260" jsonschema_extras:"x-check=target"`
	// Weight is the share of requests; a target with 0 gets none.
	Weight int      `json:"weight" jsonschema:"default=100,minimum=0,maximum=65535"`
	Tags   []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Targets is the kind of the targets of upstreams.
var Targets = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"target": targetText,
	},
}).Describe(UpstreamTarget{}, model.Kind{
	Name: "target", Path: "targets", Scoping: model.ControlPlane, Class: model.Config,
	Unique: []model.Index{{Name: IndexTarget, Value: func(spec any) (string, bool) {
		t := spec.(*UpstreamTarget)
		return t.Upstream + " " + t.Address(), true
	}}},
	Schema: &model.Schema{
		Key: "target", KeyUnder: RefUpstream, KeyIndex: targetKeyIndex, CreatedUnit: time.Second, Updated: true, Settle: settleTarget,
	},
})

// targetPort is the port of a target that names none.
const targetPort = 8000

func targetText(v any) string {
	host, _, _ := splitAddress(v.(string), targetPort)
	_, noAddress := netip.ParseAddr(host)
	if _, ok := targetAddress(v.(string)); !ok || noAddress != nil && !namesHost(host) {
		return "Invalid target ('" + v.(string) + "'); not a valid hostname or ip address"
	}
	return ""
}

// settleTarget adds the port to the stored target.
func settleTarget(w *model.Write, _ time.Time) error {
	if a, ok := targetAddress(given(w.New, "target")); ok {
		w.New["target"] = a.shown
	}
	return nil
}

// targetKeyIndex returns the spelling of a target in its index. Other texts stay as they are.
func targetKeyIndex(text string) string {
	if a, ok := targetAddress(text); ok {
		return a.folded
	}
	return text
}

// address holds a target in two spellings, both host:port.
type address struct {
	// shown is the spelling of the caller, with the port. An address of IP version 6 has all
	// its digits, because tools send it like that and compare it.
	shown string
	// folded is the same for all spellings of one target: names are in lower case, addresses
	// in their shortest form (RFC 5952).
	folded string
}

// targetAddress reads a target. It also accepts targets that an older version stored and that
// [targetText] refuses now.
func targetAddress(text string) (a address, ok bool) {
	host, port, ok := splitAddress(text, targetPort)
	if !ok || port == 0 {
		return a, false
	}
	number := strconv.Itoa(port)
	if ip, err := netip.ParseAddr(host); err == nil {
		return address{net.JoinHostPort(ip.StringExpanded(), number), net.JoinHostPort(ip.String(), number)}, ip.Zone() == ""
	}
	return address{net.JoinHostPort(host, number), net.JoinHostPort(strings.ToLower(host), number)}, validHostname(host)
}

// splitAddress splits host[:port]. An address of IP version 6 with a port is in brackets.
// Without a port, it returns fallback.
func splitAddress(text string, fallback int) (host string, port int, ok bool) {
	if _, err := netip.ParseAddr(text); err == nil {
		return text, fallback, true
	}
	if bare, found := strings.CutSuffix(text, "]"); found && strings.HasPrefix(bare, "[") {
		return bare[1:], fallback, true
	}
	if !strings.Contains(text, ":") {
		return text, fallback, true
	}
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, false
	}
	n, err := strconv.Atoi(number)
	return host, n, err == nil && n > 0 && n <= 65535
}

// UnmarshalJSON implements json.Unmarshaler. Older versions stored the shortest form of
// addresses; it is converted to the form that is shown.
func (t *UpstreamTarget) UnmarshalJSON(raw []byte) error {
	type stored UpstreamTarget
	if err := json.Unmarshal(raw, (*stored)(t)); err != nil {
		return err
	}
	if a, ok := targetAddress(t.Target); ok {
		t.Target = a.shown
	}
	return nil
}

// Address returns the target as host:port, the same for all its spellings.
func (t *UpstreamTarget) Address() string { return targetKeyIndex(t.Target) }

// Named reports whether the target is a DNS name, which proxies resolve.
func (t *UpstreamTarget) Named() bool {
	host, _ := t.HostPort()
	_, err := netip.ParseAddr(host)
	return err != nil
}

// HostPort splits [UpstreamTarget.Address].
func (t *UpstreamTarget) HostPort() (host string, port int) {
	host, port, _ = splitAddress(t.Address(), targetPort)
	return host, port
}

// UpstreamTargetFields returns the fields behind a value of a target's [IndexTarget], in the
// form in which entities show them.
func UpstreamTargetFields(value string) map[string]any {
	upstream, target, _ := strings.Cut(value, " ")
	if a, ok := targetAddress(target); ok {
		target = a.shown
	}
	return map[string]any{RefUpstream: map[string]any{"id": upstream}, "target": target}
}
