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

// secretFiles are the settings that name a file with a secret, by the setting that
// holds the secret itself.
var secretFiles = map[string]string{
	"admin.token": "admin.tokenFile", "store.encryption.key": "store.encryption.keyFile",
}

// NeverFlag says why a setting is no flag, and how it is given instead; empty if it may
// be one. Those that are always secret are none.
func NeverFlag(name string) string {
	if _, always := secretFiles[name]; !always {
		return ""
	}
	return refusal(name)
}

// refusal says why a secret is not taken from a flag: every user of the machine sees the
// command lines of all processes, and shells keep them.
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

// isAddress reports whether the value of a setting that takes addresses is host:port.
func isAddress(name, value string) bool {
	host, port, err := net.SplitHostPort(value)
	if err != nil || !strings.HasPrefix(name, "redis.") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && !strings.Contains(host, "@")
}

// reveals reports whether a value of a secret setting holds a secret: a URL without
// a password does not.
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
