package gateway

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// upstreamSchema describes upstreams.
var upstreamSchema = &model.Schema{
	Key: "name", KeyIndex: strings.ToLower, CreatedUnit: time.Second, Updated: true,
	Checks: []model.Check{
		{Fields: []string{"hash_on", "hash_on_header"}, Run: needsWith("hash_on", HashHeader, "hash_on_header")},
		{Fields: []string{"hash_fallback", "hash_fallback_header"}, Run: needsWith("hash_fallback", HashHeader, "hash_fallback_header")},
		{Fields: []string{"hash_on", "hash_on_cookie"}, Run: needsWith("hash_on", HashCookie, "hash_on_cookie")},
		{Fields: []string{"hash_fallback", "hash_on_cookie"}, Run: needsWith("hash_fallback", HashCookie, "hash_on_cookie")},
		{Fields: []string{"hash_on", "hash_on_query_arg"}, Run: needsWith("hash_on", HashQueryArg, "hash_on_query_arg")},
		{Fields: []string{"hash_fallback", "hash_fallback_query_arg"}, Run: needsWith("hash_fallback", HashQueryArg, "hash_fallback_query_arg")},
		{Fields: []string{"hash_on", "hash_fallback", "hash_on_header", "hash_fallback_header", "hash_on_query_arg", "hash_fallback_query_arg"}, Run: distinctHashes},
		{Fields: []string{"algorithm", "healthchecks"}, Run: hashingThreshold},
	},
}

// unsupported refuses one value by name and says why.
func unsupported(value, why string) func(any) string {
	return func(v any) string {
		if v == value {
			return "not supported: " + value + ": " + why
		}
		return ""
	}
}

func noServiceNames(v any) string {
	if v != false {
		return "not supported: SRV records are not resolved, so that no target has a name of one"
	}
	return ""
}

func upstreamNameText(v any) string {
	name := v.(string)
	switch {
	case net.ParseIP(strings.Trim(name, "[]")) != nil:
		return "Invalid name ('" + name + "'); no ip addresses allowed"
	case strings.Contains(name, ":"):
		return "Invalid name ('" + name + "'); no port allowed"
	case !validHostname(name):
		return "Invalid name ('" + name + "'); must be a valid hostname"
	}
	return ""
}

// hostHeaderText checks a host name or address with an optional port.
func hostHeaderText(v any) string {
	host, _, ok := splitAddress(v.(string), 0)
	if !ok || hostText(host) != "" {
		return "invalid hostname: " + strconv.Quote(v.(string))
	}
	return ""
}

func queryArgText(v any) string {
	if strings.ContainsAny(v.(string), "&=#") {
		return "must not contain '&', '=' or '#'"
	}
	return headerText(v)
}

// needsWith demands one field where another has a value.
func needsWith(field, value, needed string) func(*model.Write) []fault.Violation {
	return func(w *model.Write) []fault.Violation {
		if w.New[field] != value || w.New[needed] != nil {
			return nil
		}
		return append(violation(needed, model.TextRequired),
			entityViolation("failed conditional validation given value of field '"+field+"'")...)
	}
}

// distinctHashes refuses a fallback that could never be of use.
func distinctHashes(w *model.Write) []fault.Violation {
	on, fallback := given(w.New, "hash_on"), given(w.New, "hash_fallback")
	same := func(what string) []fault.Violation {
		return entityViolation("values of these fields must be distinct: 'hash_on_" + what + "', 'hash_fallback_" + what + "'")
	}
	switch {
	case fallback == HashNone:
		return nil
	case on == HashNone, on == HashCookie:
		return append(violation("hash_fallback", "expected one of: none"),
			entityViolation("failed conditional validation given value of field 'hash_on'")...)
	case on != fallback:
		return nil
	case on == HashHeader:
		if strings.EqualFold(given(w.New, "hash_on_header"), given(w.New, "hash_fallback_header")) {
			return same("header")
		}
	case on == HashQueryArg:
		if given(w.New, "hash_on_query_arg") == given(w.New, "hash_fallback_query_arg") {
			return same("query_arg")
		}
	default:
		return entityViolation("values of these fields must be distinct: 'hash_on', 'hash_fallback'")
	}
	return nil
}

// hashingThreshold refuses what a hash ring does not know: it would spread the
// requests over all targets where it should serve none.
func hashingThreshold(w *model.Write) []fault.Violation {
	checks, _ := w.New["healthchecks"].(map[string]any)
	if w.New["algorithm"] != ConsistentHashing || checks["threshold"] == float64(0) {
		return nil
	}
	return violation("healthchecks.threshold", "not supported with the algorithm "+ConsistentHashing)
}
