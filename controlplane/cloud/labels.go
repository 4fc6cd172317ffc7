package cloud

import (
	"fmt"
	"regexp"
	"strings"
)

// The limits of labels.
const (
	maxLabels = 50
	maxLabel  = 63
)

// labelText is what keys and values of labels look like.
var labelText = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9\-._]*[a-zA-Z0-9])?$`)

// reserved begin keys that only programs of the platform set.
var reserved = []string{"gateway", "cloud", "mesh", "controller", "_"}

// labelsText checks the labels of control planes and of portals.
func labelsText(v any) string {
	labels, _ := v.(map[string]any)
	if len(labels) > maxLabels {
		return fmt.Sprintf("must be at most %d labels", maxLabels)
	}
	for key, value := range labels {
		for _, prefix := range reserved {
			if strings.HasPrefix(strings.ToLower(key), prefix) {
				return fmt.Sprintf("the key %q must not start with %s", key, strings.Join(reserved, ", "))
			}
		}
		text, _ := value.(string)
		if len(key) > maxLabel || !labelText.MatchString(key) {
			return fmt.Sprintf("the key %q must be 1 to %d letters, digits, '-', '.' and '_', and begin and end with a letter or digit", key, maxLabel)
		}
		if len(text) > maxLabel || !labelText.MatchString(text) {
			return fmt.Sprintf("the value of %q must be 1 to %d letters, digits, '-', '.' and '_', and begin and end with a letter or digit", key, maxLabel)
		}
	}
	return ""
}
