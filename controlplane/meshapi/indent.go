package meshapi

// indent appends a JSON document that has no spaces between its parts, indented by one space for each
// level as encoding/json does it, of which the document begins at the given one. It does not check the
// document again, which takes most of the time of [json.Indent].
func indent(out, document []byte, level int) []byte {
	for i := 0; i < len(document); i++ {
		c := document[i]
		switch c {
		case '"':
			end := textEnd(document, i)
			out = append(out, document[i:end]...)
			i = end - 1
		case '{', '[':
			out = append(out, c)
			if i+1 < len(document) && document[i+1] == c+2 { // '}' or ']' follow two behind in ASCII
				i++
				out = append(out, document[i])
				continue
			}
			level++
			out = line(out, level)
		case '}', ']':
			level--
			out = append(line(out, level), c)
		case ',':
			out = line(append(out, c), level)
		case ':':
			out = append(out, c, ' ')
		default:
			out = append(out, c)
		}
	}
	return out
}

// textEnd returns where the text ends that begins at i.
func textEnd(document []byte, i int) int {
	for i++; i < len(document); i++ {
		switch document[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(document)
}

// line begins a line.
func line(out []byte, level int) []byte {
	out = append(out, '\n')
	for range level {
		out = append(out, ' ')
	}
	return out
}
