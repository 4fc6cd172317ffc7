// Package audittest reads lines of audit logs as receivers do.
package audittest

import (
	"errors"
	"fmt"
	"strings"
)

// CEF is a line of the Common Event Format as an independent reader sees it: after the standard's words, and not
// after what wrote the line.
type CEF struct {
	Prefix string
	Header []string
	// Keys are those of Extension, in their order.
	Keys      []string
	Extension map[string]string
}

// headers is how many fields a header has.
const headers = 7

// ParseCEF reads a line of the format.
func ParseCEF(line string) (CEF, error) {
	c := CEF{Extension: map[string]string{}}
	prefix, rest, ok := strings.Cut(line, "CEF:")
	if !ok || strings.ContainsAny(line, "\n\r") {
		return c, fmt.Errorf("not one line of the format: %q", line)
	}
	c.Prefix = prefix
	for len(c.Header) < headers {
		var field strings.Builder
		i := 0
		for ; i < len(rest) && rest[i] != '|'; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			field.WriteByte(rest[i])
		}
		if i == len(rest) {
			return c, errors.New("the header ends early")
		}
		c.Header = append(c.Header, field.String())
		rest = rest[i+1:]
	}
	// A key is a word before an equals sign that is not escaped, after a space or at the start.
	for rest != "" {
		key, value, ok := strings.Cut(rest, "=")
		if !ok {
			return c, fmt.Errorf("no key in %q", rest)
		}
		var this string
		this, rest = valueOf(value)
		c.Keys = append(c.Keys, key)
		c.Extension[key] = strings.NewReplacer(`\\`, `\`, `\=`, `=`, `\n`, "\n", `\r`, "\r").Replace(this)
	}
	return c, nil
}

// valueOf divides what follows a key into its value, as it is written, and the next key with what follows.
func valueOf(text string) (value, next string) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '=':
			end := strings.LastIndexByte(text[:i], ' ')
			return text[:max(end, 0)], text[end+1:]
		}
	}
	return text, ""
}
