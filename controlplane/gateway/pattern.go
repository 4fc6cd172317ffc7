package gateway

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxPattern bounds a regular expression in bytes.
	maxPattern = 1024
	// maxProgram bounds the estimated size of a compiled expression, in instructions. Proxies
	// warn about larger ones. They try the expressions of a host one after the other.
	maxProgram = 1000
)

// PathPattern is a regular expression over paths, in forms for RE2, which the proxies use.
// All forms have no capturing groups. They match only printable ASCII, because a normalised
// path contains nothing else, and never a question mark.
type PathPattern struct {
	// Path matches the beginning of a path.
	Path string
	// Target matches, as a whole, a path with such a beginning and the query after it. This
	// is the form of the pseudo-header :path.
	Target string
}

// anyByte is RE2's class of any byte. Envoy's RE2 reads expressions and texts byte by byte as
// Latin-1, so expressions must not contain anything beyond \xff.
const anyByte = `\C`

// endOfPath marks the end of the text while an expression is rewritten. It cannot occur
// otherwise, because characters beyond ASCII have been removed before.
const endOfPath = '\uE000'

// ParsePath reads a path of a route that is a regular expression: "~" and an expression that
// starts with "/".
func ParsePath(path string) (PathPattern, error) {
	text, found := strings.CutPrefix(path, "~")
	if !found || !strings.HasPrefix(text, "/") {
		return PathPattern{}, errors.New("a regular expression starts with ~/")
	}
	tree, err := parsePattern(text, syntax.Perl)
	if err != nil {
		return PathPattern{}, err
	}
	inPath := over(tree, pathClass)
	if instructions(inPath) > maxProgram {
		return PathPattern{}, errors.New("the regular expression is too large")
	}
	return PathPattern{Path: inLatin(inPath), Target: inTarget(inPath)}, nil
}

// inTarget returns an expression over paths for paths with their query.
func inTarget(inPath *syntax.Regexp) string {
	target := strings.ReplaceAll(inLatin(markEnds(inPath)), `\x{e000}`, `(?:(?:\?`+anyByte+`*)?$)`)
	return "(?:" + target + ")" + anyByte + "*"
}

// ParsePathHeader is ParseHeader for a header that has the path of the request without the
// query. The result matches :path.
func ParsePathHeader(value string) (string, error) {
	if _, err := ParseHeader(value); err != nil {
		return "", err
	}
	tree, err := parsePattern(strings.TrimPrefix(value, headerPattern), syntax.Perl|syntax.FoldCase)
	if err != nil {
		return "", err
	}
	return `[^?]*` + inTarget(over(tree, pathClass)), nil
}

// ParseHeader reads a header value of a route that is a regular expression: "~*" and the
// expression. The result matches, as a whole, values that contain a match, ignoring case.
func ParseHeader(value string) (string, error) {
	text, found := strings.CutPrefix(value, headerPattern)
	if !found || text == "" {
		return "", errors.New("a regular expression follows ~*")
	}
	tree, err := parsePattern(text, syntax.Perl|syntax.FoldCase)
	if err != nil {
		return "", err
	}
	if tree = over(tree, byteClass); instructions(tree) > maxProgram {
		return "", errors.New("the regular expression is too large")
	}
	return anyByte + "*(?:" + inLatin(tree) + ")" + anyByte + "*", nil
}

// headerPattern begins a header value that is a regular expression.
const headerPattern = "~*"

func parsePattern(text string, flags syntax.Flags) (*syntax.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, err
	}
	return tree, nil
}

// each applies a rewriting to all parts of an expression.
func each(re *syntax.Regexp, rewrite func(*syntax.Regexp) *syntax.Regexp) *syntax.Regexp {
	out := *re
	out.Sub = make([]*syntax.Regexp, len(re.Sub))
	for i, sub := range re.Sub {
		out.Sub[i] = rewrite(sub)
	}
	return &out
}

// inLatin writes an expression for Envoy's RE2.
func inLatin(re *syntax.Regexp) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(re.String(), `[^\x00-\x{10FFFF}]`, `[^\x00-\xff]`) {
		if r < 0x80 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\x{%x}`, r)
		}
	}
	return b.String()
}

// over rewrites an expression over characters. class returns the replacement for a set of
// characters, given as ranges. Capturing groups are dropped.
func over(re *syntax.Regexp, class func(ranges []rune) *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpCapture:
		return over(re.Sub[0], class)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return class([]rune{0, unicode.MaxRune})
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpLiteral:
		out := &syntax.Regexp{Op: syntax.OpConcat}
		for _, r := range re.Rune {
			out.Sub = append(out.Sub, class(folded(r, re.Flags&syntax.FoldCase != 0)))
		}
		return out
	default:
		return each(re, func(sub *syntax.Regexp) *syntax.Regexp { return over(sub, class) })
	}
}

// folded returns a rune, or all runes that equal it except for case, as ranges of one rune.
func folded(r rune, fold bool) []rune {
	out := []rune{r, r}
	if fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			out = append(out, f, f)
		}
	}
	return out
}

// pathClass returns the class of the printable ASCII characters within ranges, without the
// question mark.
func pathClass(ranges []rune) *syntax.Regexp {
	var out []rune
	for pair := range slices.Chunk(ranges, 2) {
		for _, limits := range [][2]rune{{'!', '>'}, {'@', '~'}} {
			if lo, hi := max(pair[0], limits[0]), min(pair[1], limits[1]); lo <= hi {
				out = append(out, lo, hi)
			}
		}
	}
	switch {
	case len(out) == 0:
		return &syntax.Regexp{Op: syntax.OpNoMatch}
	case len(out) == 2 && out[0] == out[1]:
		return &syntax.Regexp{Op: syntax.OpLiteral, Rune: out[:1]}
	}
	return &syntax.Regexp{Op: syntax.OpCharClass, Rune: sorted(out)}
}

// sorted sorts disjoint ranges.
func sorted(ranges []rune) []rune {
	pairs := slices.SortedFunc(slices.Chunk(ranges, 2), slices.Compare)
	return slices.Concat(pairs...)
}

// markEnds replaces the ends of the text, because a query may follow there.
func markEnds(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpEndText || re.Op == syntax.OpEndLine {
		return &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{endOfPath}}
	}
	return each(re, markEnds)
}

// wide matches any character beyond ASCII, or a byte that belongs to none.
var wide = func() *syntax.Regexp {
	re, err := syntax.Parse(`[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[\x80-\xff]`, syntax.Perl)
	if err != nil {
		panic(err) // the expression is a constant
	}
	return re
}()

// byteClass converts a class of characters into bytes. A class that reaches the last
// character, as negated classes do, matches everything beyond ASCII.
func byteClass(ranges []rune) *syntax.Regexp {
	var ascii []rune
	out := &syntax.Regexp{Op: syntax.OpAlternate}
	for pair := range slices.Chunk(ranges, 2) {
		lo, hi := pair[0], pair[1]
		if lo < utf8.RuneSelf {
			ascii = append(ascii, lo, min(hi, utf8.RuneSelf-1))
		}
		if hi == unicode.MaxRune {
			out.Sub = append(out.Sub, wide)
			continue
		}
		for r := max(lo, utf8.RuneSelf); r <= hi && len(out.Sub) <= maxProgram; r++ {
			out.Sub = append(out.Sub, encoded(r))
		}
	}
	if len(ascii) > 0 {
		out.Sub = append(out.Sub, &syntax.Regexp{Op: syntax.OpCharClass, Rune: sorted(ascii)})
	}
	switch len(out.Sub) {
	case 0:
		return &syntax.Regexp{Op: syntax.OpNoMatch}
	case 1:
		return out.Sub[0]
	}
	return out
}

// encoded matches the bytes of a character.
func encoded(r rune) *syntax.Regexp {
	out := &syntax.Regexp{Op: syntax.OpLiteral}
	for _, b := range []byte(string(r)) {
		out.Rune = append(out.Rune, rune(b))
	}
	return out
}

// instructions estimates the size of a compiled expression.
func instructions(re *syntax.Regexp) int {
	n := 0
	switch re = re.Simplify(); re.Op {
	case syntax.OpLiteral, syntax.OpCharClass:
		n = len(re.Rune)
	case syntax.OpConcat:
	case syntax.OpAlternate:
		n = len(re.Sub)
	default:
		n = 2
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	return n
}
