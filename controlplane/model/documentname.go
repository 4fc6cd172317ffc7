package model

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// MaxName bounds the bytes of the name of a document.
const MaxName = 253

const (
	textName      = "invalid characters. A lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
	textOldName   = "invalid characters. Valid characters are numbers, lowercase latin letters and '-', '_', '.' symbols."
	textLabelKey  = "a label key is an optional DNS subdomain and a slash, then up to 63 alphanumeric characters, '-', '_' or '.', the first and last of them alphanumeric"
	textLabel     = "a label value is up to 63 alphanumeric characters, '-', '_' or '.', the first and last of them alphanumeric"
	labelMesh     = "mesh.io/mesh"
	labelOrigin   = "mesh.io/origin"
	textLabelMesh = "has to be the same as the mesh of the resource"
)

var (
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	oldName   = regexp.MustCompile(`^[0-9a-z\-_.]*$`)
	labelPart = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
)

// ValidateName returns what is wrong with the name of a document. Names that only older rules
// permitted are refused for new documents, and accepted in updates.
func ValidateName(name string, creating bool) []fault.Violation {
	var message string
	switch {
	case name == "":
		message = "cannot be empty"
	case len(name) > MaxName:
		message = "value length must less or equal 253"
	case creating && !subdomain.MatchString(name):
		message = textName
	case !creating && !oldName.MatchString(name):
		message = textOldName
	default:
		return nil
	}
	return []fault.Violation{{Path: "name", Message: message}}
}

// ValidLabelKey reports whether a label can have a key.
func ValidLabelKey(key string) bool {
	prefix, name, qualified := strings.Cut(key, "/")
	if !qualified {
		name = key
	}
	return labelPart.MatchString(name) && (!qualified || len(prefix) <= MaxName && subdomain.MatchString(prefix))
}

// ValidateLabels returns what is wrong with the labels of a document. scope is its mesh,
// empty for kinds without one.
func ValidateLabels(labels map[string]string, scope string) []fault.Violation {
	var vs []fault.Violation
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		at, v := `labels["`+k+`"]`, labels[k]
		if !ValidLabelKey(k) {
			vs = append(vs, fault.Violation{Path: at, Message: textLabelKey})
		}
		if v != "" && !labelPart.MatchString(v) {
			vs = append(vs, fault.Violation{Path: at, Message: textLabel})
		}
		switch {
		case k == labelOrigin && v != "global" && v != "zone":
			vs = append(vs, fault.Violation{Path: at, Message: fmt.Sprintf("unknown resource origin %q", v)})
		case k == labelMesh && scope != "" && v != scope:
			vs = append(vs, fault.Violation{Path: at, Message: textLabelMesh})
		}
	}
	return vs
}
