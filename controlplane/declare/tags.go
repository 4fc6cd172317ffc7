package declare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxTags bounds the select tags; the API filters by no more.
const maxTags = 5

// tagList is the value of the flag for select tags. No tag would select everything, which is
// what an unset variable in a script must not do.
type tagList []string

// Set adds tags.
func (l *tagList) Set(text string) error {
	for tag := range strings.SplitSeq(text, ",") {
		if tag == "" {
			return errors.New("a tag is empty: without the flag everything is selected")
		}
		*l = append(*l, tag)
	}
	return nil
}

// String implements [pflag.Value].
func (l *tagList) String() string { return strings.Join(*l, ",") }

// Type implements [pflag.Value].
func (l *tagList) Type() string { return "tags" }

// check refuses tags that the API would understand otherwise: a/b selects what has either.
func (l *tagList) check() error {
	for _, tag := range *l {
		if strings.ContainsAny(tag, ",/") {
			return fmt.Errorf("the select tag %q cannot be: no tag holds ',' or '/'", tag)
		}
	}
	slices.Sort(*l)
	if *l = slices.Compact(*l); len(*l) > maxTags {
		return fmt.Errorf("there are %d select tags: at most %d are possible", len(*l), maxTags)
	}
	return nil
}
