package gateway

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// targetPort is the port of a target that names none.
const targetPort = 8000

// targetSchema describes the targets of upstreams.
var targetSchema = &model.Schema{
	Key: "target", KeyUnder: RefUpstream, KeyIndex: targetKeyIndex, CreatedUnit: time.Second, Settle: settleTarget,
	Fields: append(model.Identity(time.Second, true),
		model.Field{Name: "upstream", Type: model.Foreign, To: "upstream", Required: true},
		model.Field{Name: "target", Type: model.String, Required: true, MaxLen: 260, Check: targetText},
		model.Field{Name: "weight", Type: model.Integer, Required: true, Default: int64(100), Between: &[2]int64{0, 65535}},
		tags(),
	),
}

func targetText(v any) string {
	if _, ok := targetAddress(v.(string)); !ok {
		return "Invalid target ('" + v.(string) + "'); not a valid hostname or ip address"
	}
	return ""
}

// settleTarget stores the port with the address, so that two spellings of one
// target are one.
func settleTarget(w *model.Write, _ time.Time) error {
	w.New["target"], _ = targetAddress(given(w.New, "target"))
	return nil
}

// targetKeyIndex is how a target is spelled in its index; what is none stays.
func targetKeyIndex(text string) string {
	if address, ok := targetAddress(text); ok {
		return address
	}
	return text
}

// targetAddress returns a target as host:port, in lower case.
func targetAddress(text string) (address string, ok bool) {
	host, port, ok := splitAddress(text, targetPort)
	if !ok || port == 0 {
		return "", false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(ip.String(), strconv.Itoa(port)), ip.Zone() == ""
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.Itoa(port)), validHostname(host)
}

// splitAddress splits host[:port]; an address of IP version 6 with a port is
// bracketed. The port is fallback where there is none.
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

// HostPort splits the address of a stored target.
func (t *UpstreamTarget) HostPort() (host string, port int) {
	host, port, _ = splitAddress(t.Target, targetPort)
	return host, port
}

// UpstreamTargetFields returns the fields that a value of [IndexTarget] of a
// target stands for, in the form in which entities show them.
func UpstreamTargetFields(value string) map[string]any {
	upstream, target, _ := strings.Cut(value, " ")
	return map[string]any{RefUpstream: map[string]any{"id": upstream}, "target": target}
}
