package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Limits of documents.
const (
	// MaxDocument bounds a document in bytes.
	MaxDocument = 1 << 20
	// MaxDepth bounds the nesting of objects and lists in a document.
	MaxDepth = 64
)

// node is a JSON value with its text. Types that decode themselves get the text, with the
// original order of its keys.
type node struct {
	raw []byte
	// value is nil, bool, string, json.Number, []node or []member.
	value any
}

type member struct {
	key  string
	node node
}

// kind returns the JSON type of a value, for messages.
func (n node) kind() string {
	switch n.value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []node:
		return "array"
	}
	return "object"
}

// parseTree reads one JSON value within the limits of documents.
func parseTree(raw []byte) (node, error) {
	if len(raw) > MaxDocument {
		return node{}, fmt.Errorf("a document has at most %d bytes", MaxDocument)
	}
	if !utf8.Valid(raw) {
		return node{}, errors.New("a document is valid UTF-8")
	}
	if TooDeep(raw, MaxDepth) {
		return node{}, fmt.Errorf("a document is nested at most %d levels deep", MaxDepth)
	}
	// Unmarshal finds all syntax errors, and clients know its messages.
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return node{}, err
	}
	p := parser{src: raw, tokens: json.NewDecoder(bytes.NewReader(raw))}
	p.tokens.UseNumber()
	return p.next()
}

// TooDeep reports whether objects and lists nest more than most levels deep in a JSON text.
// It looks only at the bytes. It must run before a parser, because parsers recurse.
func TooDeep(raw []byte, most int) bool {
	depth, text, escaped := 0, false, false
	for _, c := range raw {
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// parser builds nodes from valid JSON.
type parser struct {
	src    []byte
	tokens *json.Decoder
}

func (p *parser) next() (node, error) {
	start := p.tokens.InputOffset()
	token, err := p.tokens.Token()
	if err != nil {
		return node{}, err
	}
	n := node{value: token}
	switch token {
	case json.Delim('{'):
		n.value, err = p.members()
	case json.Delim('['):
		n.value, err = p.elements()
	}
	n.raw = bytes.TrimLeft(p.src[start:p.tokens.InputOffset()], " \t\r\n:,")
	return n, err
}

func (p *parser) members() (ms []member, err error) {
	for p.tokens.More() {
		key, err := p.tokens.Token()
		if err != nil {
			return nil, err
		}
		value, err := p.next()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		ms = append(ms, member{name, value})
	}
	_, err = p.tokens.Token()
	return ms, err
}

func (p *parser) elements() (ns []node, err error) {
	for p.tokens.More() {
		value, err := p.next()
		if err != nil {
			return nil, err
		}
		ns = append(ns, value)
	}
	_, err = p.tokens.Token()
	return ns, err
}
