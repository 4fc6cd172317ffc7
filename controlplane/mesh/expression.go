package mesh

import (
	"fmt"
	"regexp/syntax"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	textNoExpression      = "must be a regular expression (RE2)"
	textLargeExpression   = "is too large an expression: proxies refuse it"
	textExpressionASCII   = "must consist of ASCII characters: versions of Envoy read others differently"
	textExpressionClasses = `must not use \p, \P or codes above \x7F: versions of Envoy read them differently`
	textSubstitution      = `must have a digit or another backslash after a backslash`
	textNoGroup           = `\%c is no group of the expression, which has %d`

	// mostExpression bounds the program of an expression, as RE2 counts it. Envoys that are begun
	// with our bootstrap accept a larger one, and warn.
	mostExpression = 1000
	mostPattern    = 1024
)

// WrongExpression says why proxies cannot be given a regular expression. It is empty if they can.
// Envoy refuses a whole listener or route table for one expression that it does not take. It uses
// RE2, which differs from Go's package: it knows fewer classes, and bounds the program. Envoy 1.39
// reads bytes where older ones read runes, so an expression must mean the same for both.
func WrongExpression(pattern string) string {
	if len(pattern) > mostPattern {
		return textLargeExpression
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	switch {
	case err != nil:
		return textNoExpression
	case strings.ContainsFunc(pattern, func(r rune) bool { return r > 0x7F }):
		return textExpressionASCII
	case namesRunes(pattern) || beyondASCII(parsed):
		return textExpressionClasses
	case programSize(parsed) > mostExpression:
		return textLargeExpression
	}
	return ""
}

// WrongSubstitution says why proxies cannot replace what an accepted expression matches by a text, in
// which \0 to \9 stand for groups of the expression and \\ for a backslash. It is empty if they can.
func WrongSubstitution(pattern, text string) string {
	if !httpguts.ValidHeaderFieldValue(text) {
		return textHeaderValue
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "" // it is the expression that is wrong
	}
	groups := parsed.MaxCap()
	for i := strings.IndexByte(text, '\\'); i >= 0; i = strings.IndexByte(text, '\\') {
		text = text[i+1:]
		switch {
		case text == "" || text[0] != '\\' && (text[0] < '0' || text[0] > '9'):
			return textSubstitution
		case text[0] != '\\' && int(text[0]-'0') > groups:
			return fmt.Sprintf(textNoGroup, text[0], groups)
		}
		text = text[1:]
	}
	return ""
}

// namesRunes reports whether an expression names a class of runes, or a rune by a code of any
// length. Such classes look like others once they are parsed.
func namesRunes(pattern string) bool {
	for {
		i := strings.IndexByte(pattern, '\\')
		if i < 0 || i+1 == len(pattern) {
			return false
		}
		switch rest := pattern[i+2:]; pattern[i+1] {
		case 'p', 'P':
			return true
		case 'x':
			if strings.HasPrefix(rest, "{") {
				digits, _, _ := strings.Cut(rest[1:], "}")
				if digits = strings.TrimLeft(digits, "0"); len(digits) > 2 || len(digits) == 2 && digits[0] > '7' {
					return true
				}
			} else if rest != "" && rest[0] > '7' {
				return true
			}
			pattern = rest
		case 'Q':
			_, pattern, _ = strings.Cut(rest, `\E`)
		default:
			pattern = rest
		}
	}
}

// beyondASCII reports whether an expression has a rune in it that is no ASCII character.
func beyondASCII(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral {
		for _, r := range re.Rune {
			if r > 0x7F {
				return true
			}
		}
	}
	for _, sub := range re.Sub {
		if beyondASCII(sub) {
			return true
		}
	}
	return false
}

// programSize returns at least the size of the program that RE2 makes of an expression.
func programSize(re *syntax.Regexp) int {
	const frame = 8 // what is around every program
	return frame + instructions(re)
}

const (
	// anyRune is at least what a class of RE2 takes that contains all runes beyond ASCII, and
	// perRange what one range of ASCII does.
	anyRune, perRange = 12, 1
	// folded is what a letter takes whose case does not count: k and s have a third form.
	folded = 5
)

func instructions(re *syntax.Regexp) (n int) {
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		each := 1
		if re.Flags&syntax.FoldCase != 0 {
			each = folded
		}
		return each * len(re.Rune)
	case syntax.OpCharClass:
		n = 1
		for i := 0; i+1 < len(re.Rune); i += 2 {
			n += perRange
			if re.Rune[i+1] > 0x7F {
				n += anyRune
			}
		}
		return n
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return anyRune
	case syntax.OpRepeat:
		// Everything beyond the least number is one alternative more.
		return (n+1)*max(re.Min, re.Max, 1) + 1
	case syntax.OpCapture:
		return n + 2
	case syntax.OpAlternate:
		return n + len(re.Sub)
	default:
		return n + 1
	}
}
