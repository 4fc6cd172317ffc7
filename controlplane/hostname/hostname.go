// Package hostname tells names of hosts from what resolvers read as addresses. What is
// checked as a name and then connected to as an address has passed a check that was meant
// for something else: 0x7f000001 is this very machine.
package hostname

import "strings"

// EndsInNumber reports whether the last label of a name is a number in decimal, octal or
// hexadecimal digits, of any length. No host has such a name: inet_aton and the URL
// standard (https://url.spec.whatwg.org/#ends-in-a-number-checker) read it as an address
// of IP version 4, or as a broken one. A 0x without digits is zero to them. Dots at the
// end are ignored.
func EndsInNumber(name string) bool {
	name = strings.TrimRight(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if len(last) >= 2 && last[0] == '0' && last[1]|0x20 == 'x' {
		return strings.Trim(last[2:], "0123456789abcdefABCDEF") == ""
	}
	// Octal digits are decimal ones.
	return last != "" && strings.Trim(last, "0123456789") == ""
}
