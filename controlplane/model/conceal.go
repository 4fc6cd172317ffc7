package model

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Concealed stands in documents for secrets that whoever reads them may not see. It is Base64, so
// that clients can decode members that are bytes. No document with it is stored.
const Concealed = "CONCEALED+++"

const textConcealed = "the value is concealed from you and would be lost: write the value itself, or refer to a secret"

// Conceals reports whether the member at a path is one of the secrets of the kind, or below one; see
// [Kind.Secrets]. The path is a JSON pointer.
func (k *Kind) Conceals(path string) bool {
	if len(k.Secrets) == 0 {
		return k.Sealed
	}
	have := strings.Split(path, "/")
	return slices.ContainsFunc(k.Secrets, func(pattern string) bool { return below(have, strings.Split(pattern, "/")) })
}

// below reports whether a pattern names the member at a path, or a container of it.
func below(have, want []string) bool {
	if len(have) < len(want) {
		return false
	}
	for i, part := range want {
		if part != "*" && part != have[i] {
			return false
		}
	}
	return true
}

// ConcealDocument is [EncodeDocument] with [Concealed] in place of secrets.
func ConcealDocument(r *Resource) ([]byte, error) { return encodeDocument(r, concealingOf(r.Kind)) }

// ConcealSpec is [EncodeSpec] with [Concealed] in place of the secrets of a kind.
func ConcealSpec(k *Kind, spec any) ([]byte, error) { return encodeSpec(spec, concealingOf(k)) }

// FindConcealed returns a violation for each secret of a spec that is only [Concealed].
func FindConcealed(k *Kind, spec any) ([]fault.Violation, error) {
	c := concealingOf(k)
	if c == nil {
		return nil, nil
	}
	_, err := encodeSpec(spec, c)
	return c.found, err
}

// concealing replaces secrets while a spec is encoded.
type concealing struct {
	kind *Kind
	// path leads to the member that is being encoded.
	path []string
	// found are the secrets whose value was Concealed already.
	found []fault.Violation
}

// concealingOf returns nil for a kind without secrets.
func concealingOf(k *Kind) *concealing {
	if !k.Sealed && len(k.Secrets) == 0 {
		return nil
	}
	return &concealing{kind: k}
}

func (c *concealing) enter(name string) {
	if c != nil {
		c.path = append(c.path, name)
	}
}

func (c *concealing) leave() {
	if c != nil {
		c.path = c.path[:len(c.path)-1]
	}
}

// secret reports whether the member that is being encoded is a secret.
func (c *concealing) secret() bool { return c != nil && c.kind.Conceals("/"+strings.Join(c.path, "/")) }

// note looks at the value of a secret in JSON.
func (c *concealing) note(value []byte) {
	if bytes.Contains(value, []byte(strconv.Quote(Concealed))) {
		c.found = append(c.found, fault.Violation{Path: dotted(c.path), Message: textConcealed})
	}
}

// dotted returns a path in the form of violations.
func dotted(path []string) string {
	var out strings.Builder
	for i, part := range path {
		switch _, err := strconv.ParseUint(part, 10, 32); {
		case err == nil:
			out.WriteString("[" + part + "]")
		case i > 0:
			out.WriteString("." + part)
		default:
			out.WriteString(part)
		}
	}
	return out.String()
}
