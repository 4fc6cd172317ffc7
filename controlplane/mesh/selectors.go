package mesh

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// SelectorRule says which tags a selector may and must have.
type SelectorRule int

// The rules for selectors. Each requires at least one tag.
const (
	// SelectAny permits every tag.
	SelectAny SelectorRule = iota
	// SelectService permits every tag and requires the service tag. It is for sources of
	// policies on connections, and for the destinations of routes.
	SelectService
	// SelectOnlyService requires the service tag and permits no other. It is for destinations
	// of policies on connections.
	SelectOnlyService
)

// maxTag bounds names and values of tags in bytes, because they become names of clusters and,
// with mutual TLS, of servers.
const maxTag = 255

// MaxTags bounds the tags of one inbound or service, because everything that is planned of a service
// goes through the tags of all its instances.
const MaxTags = 128

const (
	textLongTag     = "must not be longer than 255 characters"
	textTagName     = "tag name must consist of alphanumeric characters, dots, dashes, slashes and underscores"
	textTagValue    = "tag value must consist of alphanumeric characters, dots, dashes and underscores"
	textSelected    = `tag value must consist of alphanumeric characters, dots, dashes, slashes and underscores or be "*"`
	textUnknownTag  = "no tag of this name means anything to the mesh"
	textNoElement   = "must have at least one element"
	textNoTag       = "must have at least one tag"
	textEmptyName   = "tag name must be non-empty"
	textEmptyValue  = "tag value must be non-empty"
	textServiceTag  = `mandatory tag "` + TagService + `" is missing`
	textServiceOnly = `must consist of exactly one tag "` + TagService + `"`
)

var (
	tagName       = regexp.MustCompile(`^[a-zA-Z0-9.\-_:/]*$`)
	tagValue      = regexp.MustCompile(`^[a-zA-Z0-9.\-_:]*$`)
	selectedValue = regexp.MustCompile(`^([a-zA-Z0-9.\-_:/]*|\*)$`)
)

// CheckSources returns what is wrong with the sources of a policy on connections.
func CheckSources(ss []Selector) []fault.Violation {
	return ValidateSelectors("sources", ss, SelectService)
}

// CheckDestinations returns what is wrong with the destinations of a policy on
// connections that is chosen by service.
func CheckDestinations(ss []Selector) []fault.Violation {
	return ValidateSelectors("destinations", ss, SelectOnlyService)
}

// CheckAny returns what is wrong with selectors that may use any tags.
func CheckAny(field string, ss []Selector) []fault.Violation {
	return ValidateSelectors(field, ss, SelectAny)
}

// ValidateSelectors returns what is wrong with a list of selectors. An empty list is wrong.
// path is the path of the list.
func ValidateSelectors(path string, ss []Selector, rule SelectorRule) []fault.Violation {
	if len(ss) == 0 {
		return []fault.Violation{{Path: path, Message: textNoElement}}
	}
	var vs []fault.Violation
	for i, s := range ss {
		vs = append(vs, ValidateMatch(indexed(path, i)+".match", s.Match, rule)...)
	}
	return vs
}

// ValidateMatch returns what is wrong with the tags that one selector matches.
func ValidateMatch(path string, match Tags, rule SelectorRule) []fault.Violation {
	var vs violations
	_, service := match[TagService]
	switch {
	case rule == SelectOnlyService && (len(match) != 1 || !service):
		vs.add(path, textServiceOnly)
	case rule != SelectOnlyService && len(match) == 0:
		vs.add(path, textNoTag)
	}
	for _, k := range slices.Sorted(maps.Keys(match)) {
		vs.tagName(path, k)
		if rule == SelectOnlyService && k != TagService {
			vs.add(keyed(path, k), fmt.Sprintf("tag %q is not allowed", k))
		}
		vs.tagValue(path, k, match[k], selectedValue, textSelected)
	}
	if rule != SelectAny && !service {
		vs.add(path, textServiceTag)
	}
	return vs
}

// ValidateTags returns what is wrong with tags that describe a proxy or a service. Unlike
// those of a selector, their values are exact.
func ValidateTags(path string, tags Tags) []fault.Violation {
	var vs violations
	if len(tags) > MaxTags {
		vs.add(path, fmt.Sprintf("must have at most %d tags", MaxTags))
		return vs
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		vs.tagName(path, k)
		vs.tagValue(path, k, tags[k], tagValue, textTagValue)
	}
	return vs
}

// violations collects violations in the order of the checks.
type violations []fault.Violation

func (vs *violations) add(path, message string) {
	*vs = append(*vs, fault.Violation{Path: path, Message: message})
}

func (vs *violations) join(more []fault.Violation) { *vs = append(*vs, more...) }

func (vs *violations) tagName(path, name string) {
	switch {
	case name == "":
		vs.add(path, textEmptyName)
	case len(name) > maxTag:
		vs.add(keyed(path, name[:32]+"..."), textLongTag)
	case !tagName.MatchString(name):
		vs.add(keyed(path, name), textTagName)
	case mistyped(name) != "":
		vs.add(keyed(path, name), textUnknownTag+mistyped(name))
	}
}

// mistyped returns the tag of the mesh that was probably meant by an unknown one. An inbound
// with a mistyped protocol tag would speak tcp, and the protection for HTTP would not apply
// to it.
func mistyped(name string) string {
	known := []string{TagService, TagProtocol, TagZone, TagInstance, TagMesh}
	prefix, last := path.Split(name)
	if !strings.EqualFold(prefix, path.Dir(TagService)+"/") || slices.Contains(known, name) {
		return ""
	}
	for i := range known {
		known[i] = path.Base(known[i])
	}
	return strings.Replace(fault.Meant(last, known), `"`, `"`+prefix, 1)
}

func (vs *violations) tagValue(path, name, value string, permitted *regexp.Regexp, message string) {
	switch {
	case value == "":
		vs.add(keyed(path, name), textEmptyValue)
	case len(value) > maxTag:
		vs.add(keyed(path, name), textLongTag)
	case !permitted.MatchString(value):
		vs.add(keyed(path, name), message)
	}
}

// keyed returns the path of a map's entry.
func keyed(path, key string) string { return path + `["` + key + `"]` }

// indexed returns the path of a list's element.
func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
