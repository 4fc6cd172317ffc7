package engine

import "bytes"

// Rewrite removes the credentials that a Continue or Issue verdict wants hidden from the
// path and the body of the request. It edits both in place and returns what is left. Nothing
// is encoded anew. The body is empty unless it has been read. contentType is that of the
// request.
func (p *Program) Rewrite(v *Verdict, path, contentType, body []byte) (newPath, newBody []byte) {
	if v.HideQuery != 0 {
		path = p.rewritePath(v.HideQuery, path)
	}
	if v.HideBody == 0 || len(body) == 0 {
		return path, body
	}
	switch mediaOf(contentType) {
	case mediaForm:
		body = dropPairs(body, p.hidden(v.HideBody))
	case mediaJSON:
		body = p.dropMembers(v.HideBody, body)
	case mediaMultipart:
		body = p.dropParts(v.HideBody, contentType, body)
	case mediaNone:
	}
	return path, body
}

// hidden returns a function that tells which pairs to drop by their names, which are still
// encoded.
func (p *Program) hidden(mask uint16) func(name []byte) bool {
	return func(name []byte) bool {
		for i := range p.params {
			if mask>>i&1 != 0 && p.params[i].matches(name) {
				return true
			}
		}
		return false
	}
}

// rewritePath also drops the question mark if nothing is left after it.
func (p *Program) rewritePath(mask uint16, path []byte) []byte {
	q := bytes.IndexByte(path, '?')
	if q < 0 {
		return path
	}
	left := dropPairs(path[q+1:], p.hidden(mask))
	if len(left) == 0 {
		return path[:q]
	}
	return path[:q+1+len(left)]
}

func (p *Program) dropMembers(mask uint16, body []byte) []byte {
	var keep [][2]int
	ok := eachMember(body, func(name, _ []byte, from, to int) {
		if i := memberIndex(name, p.params); i < 0 || mask>>i&1 == 0 {
			keep = append(keep, [2]int{from, to})
		}
	})
	if !ok {
		return body
	}
	out := append(body[:0], '{')
	for i, k := range keep {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, body[k[0]:k[1]]...)
	}
	return append(out, '}')
}

func (p *Program) dropParts(mask uint16, contentType, body []byte) []byte {
	var drop [][2]int
	ok := eachPart(body, boundaryOf(contentType), func(name string, _ []byte, from, to int) {
		if i := paramIndex([]byte(name), p.params); i >= 0 && mask>>i&1 != 0 {
			drop = append(drop, [2]int{from, to})
		}
	})
	if !ok {
		return body
	}
	out, at := body[:0], 0
	for _, d := range drop {
		out = append(out, body[at:d[0]]...)
		at = d[1]
	}
	return append(out, body[at:]...)
}
