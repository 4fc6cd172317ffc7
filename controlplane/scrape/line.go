package scrape

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of one line.
const (
	// maxLine is in bytes, without the line end.
	maxLine   = 64 << 10
	maxLabels = 64
	// maxDigits keeps timestamps, which are milliseconds, within 64 bits.
	maxDigits = 18
)

// sample is a line that has a value. Its texts are parts of the line.
type sample struct {
	name   []byte
	labels []label
	value  []byte
	// time is the timestamp, empty if there is none.
	time []byte
}

// label has its value as the line does, between the quotes. Only one spelling of a value is in
// order, so equal values are equal bytes.
type label struct{ name, value []byte }

// parseSample reads a line as Prometheus' parser of text does, and more strictly where that parser
// or another one takes what is not in the format's description: names in quotes, octal numbers,
// timestamps that are no digits, escapes other than the three. The result uses labels for its own.
func parseSample(line []byte, labels []label) (s sample, ok bool) {
	if len(line) > maxLine || !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
		return s, false
	}
	if s.name, line = metricName(line); len(s.name) == 0 {
		return s, false
	}
	if len(line) > 0 && line[0] == '{' {
		if s.labels, line, ok = parseLabels(line[1:], labels[:0]); !ok {
			return s, false
		}
	} else if len(line) == 0 || !blank(line[0]) {
		return s, false
	}
	s.value, line = word(line)
	s.time, line = word(line)
	if rest, _ := word(line); len(rest) > 0 || !isValue(s.value) || !isTime(s.time) {
		return s, false
	}
	return s, true
}

// parseLabels reads what is behind the opening brace, and returns what is behind the closing one.
func parseLabels(line []byte, labels []label) (_ []label, rest []byte, ok bool) {
	for {
		line = skipBlanks(line)
		if len(line) > 0 && line[0] == '}' {
			return labels, line[1:], true
		}
		var l label
		if l.name, line = labelName(line); len(l.name) == 0 || bytes.HasPrefix(l.name, []byte("__")) {
			return nil, nil, false
		}
		if line = skipBlanks(line); len(line) == 0 || line[0] != '=' {
			return nil, nil, false
		}
		if line = skipBlanks(line[1:]); len(line) == 0 || line[0] != '"' {
			return nil, nil, false
		}
		if l.value, line, ok = quoted(line[1:]); !ok || len(labels) == maxLabels {
			return nil, nil, false
		}
		for _, before := range labels {
			if bytes.Equal(before.name, l.name) {
				return nil, nil, false
			}
		}
		labels = append(labels, l)
		line = skipBlanks(line)
		switch {
		case len(line) > 0 && line[0] == ',':
			line = line[1:]
		case len(line) == 0 || line[0] != '}':
			return nil, nil, false
		}
	}
}

// quoted reads up to the closing quote, and returns what is behind it.
func quoted(line []byte) (value, rest []byte, ok bool) {
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			return line[:i], line[i+1:], true
		case '\\':
			if i++; i == len(line) || line[i] != '\\' && line[i] != '"' && line[i] != 'n' {
				return nil, nil, false
			}
		}
	}
	return nil, nil, false
}

// parseComment reads a line that begins with a hash. what is TYPE or HELP, or empty for any other
// text for people.
func parseComment(line []byte) (what string, name, text []byte) {
	rest, is := bytes.CutPrefix(line, []byte("# "))
	if !is || len(line) > maxLine || !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
		return "", nil, nil
	}
	for _, what := range []string{"TYPE", "HELP"} {
		said, is := bytes.CutPrefix(rest, []byte(what+" "))
		if !is {
			continue
		}
		name, text := metricName(said)
		if len(name) == 0 || len(text) == 0 || text[0] != ' ' {
			return "", nil, nil
		}
		return what, name, text[1:]
	}
	return "", nil, nil
}

// isHelp reports whether a text can be the one of a HELP.
func isHelp(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' {
			if i++; i == len(text) || text[i] != '\\' && text[i] != 'n' {
				return false
			}
		}
	}
	return true
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func skipBlanks(line []byte) []byte {
	for len(line) > 0 && blank(line[0]) {
		line = line[1:]
	}
	return line
}

// word returns the next word of a line, and what is behind it.
func word(line []byte) (w, rest []byte) {
	line = skipBlanks(line)
	i := bytes.IndexAny(line, " \t")
	if i < 0 {
		return line, nil
	}
	return line[:i], line[i:]
}

func letter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// metricName returns the name at the beginning of a line, and what is behind it.
func metricName(line []byte) (name, rest []byte) {
	i := 0
	for i < len(line) && (letter(line[i]) || line[i] == ':' || i > 0 && digit(line[i])) {
		i++
	}
	return line[:i], line[i:]
}

func labelName(line []byte) (name, rest []byte) {
	i := 0
	for i < len(line) && (letter(line[i]) || i > 0 && digit(line[i])) {
		i++
	}
	return line[:i], line[i:]
}

// isValue reports whether a word is a number as Go reads and writes numbers, without the forms that
// Prometheus does not take: hexadecimal ones, and digits with underscores.
func isValue(w []byte) bool {
	if len(w) == 0 || len(w) > 64 || bytes.ContainsAny(w, "xXpP_") {
		return false
	}
	_, err := strconv.ParseFloat(string(w), 64)
	return err == nil
}

func isTime(w []byte) bool {
	return len(w) <= maxDigits && !slices.ContainsFunc(w, func(c byte) bool { return !digit(c) })
}

// appendTo appends the line in the one form in which a page has it: labels by name, one blank
// between words, and the words of Go for what is no number of digits.
func (s *sample) appendTo(out []byte) []byte {
	out = append(s.appendSeries(out), ' ')
	if slices.ContainsFunc(s.value, func(c byte) bool { return !digit(c) && !strings.ContainsRune("+-.eE", rune(c)) }) {
		f, _ := strconv.ParseFloat(string(s.value), 64) // it is a value
		out = appendFloat(out, f)
	} else {
		out = append(out, s.value...)
	}
	if len(s.time) > 0 {
		out = append(append(out, ' '), s.time...)
	}
	return append(out, '\n')
}

// appendSeries appends the name and the labels, and orders these.
func (s *sample) appendSeries(out []byte) []byte {
	out = append(out, s.name...)
	if len(s.labels) == 0 {
		return out
	}
	slices.SortFunc(s.labels, func(a, b label) int { return bytes.Compare(a.name, b.name) })
	before := byte('{')
	for _, l := range s.labels {
		out = append(append(append(out, before), l.name...), '=', '"')
		before = ','

		out = append(append(out, l.value...), '"')
	}
	return append(out, '}')
}

// appendFloat appends a number as Prometheus writes it.
func appendFloat(out []byte, f float64) []byte { return strconv.AppendFloat(out, f, 'g', -1, 64) }

// bound returns the value of the label that tells the lines of one histogram or summary apart,
// whether there is one, and whether it is a number such as values are.
func (s *sample) bound(name string) (f float64, has, ok bool) {
	for _, l := range s.labels {
		if string(l.name) == name {
			if !isValue(l.value) {
				return 0, true, false
			}
			f, err := strconv.ParseFloat(string(l.value), 64)
			return f, true, err == nil
		}
	}
	return 0, false, false
}
