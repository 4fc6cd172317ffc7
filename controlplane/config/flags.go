package config

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// secretFiles maps settings that hold a secret to the settings that name a file with it.
var secretFiles = map[string]string{
	"admin.token": "admin.tokenFile", "store.encryption.key": "store.encryption.keyFile",
}

// NeverFlag says why a setting cannot be a flag, and how it is set instead. It is empty for
// settings that may be flags. Settings that are always secret may not.
func NeverFlag(name string) string {
	if _, always := secretFiles[name]; !always {
		return ""
	}
	return refusal(name)
}

// refusal says why a flag must not hold a secret: every user of the machine can see the
// command lines of all processes, and shells store them.
func refusal(name string) string {
	other := "the configuration file"
	if file := secretFiles[name]; file != "" {
		other = "the setting " + file
	}
	return "must not be given as a flag, which every user of this machine can read: use the environment variable " + EnvName(name) + " or " + other
}

// checkFlags refuses secrets in flags.
func checkFlags(flags map[string]string) error {
	var vs []fault.Violation
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		i := slices.IndexFunc(Table, func(k Key) bool { return k.Name == name })
		if i < 0 || !Table[i].Secret || isAddress(name, flags[name]) || !reveals(flags[name]) {
			continue
		}
		vs = append(vs, fault.Violation{Path: name, Message: refusal(name)})
	}
	return fault.Violated(vs)
}

// isAddress reports whether the value is host:port and belongs to a setting that takes
// addresses.
func isAddress(name, value string) bool {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !strings.HasPrefix(name, "redis.") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && !strings.Contains(host, "@")
}

// reveals reports whether the value of a secret setting contains a secret. A URL without a
// password does not.
func reveals(value string) bool {
	if value == "" {
		return false
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Host == "" && u.Path == "" {
		return true
	}
	_, password := u.User.Password()
	return password || u.Query().Has("password")
}
