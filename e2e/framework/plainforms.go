package framework

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
)

// PlainForms are the spellings in which a secret can still be read: as it is, escaped for
// URLs, in hex, and in base64 at each of the three places in a longer text.
func PlainForms(secret string) []string {
	out := []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret))}
	for shift := range 3 {
		b := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00", shift) + secret))
		out = append(out, b[4:len(b)-4])
	}
	return out
}
