package reserved

import "testing"

// TestWrong: a text is refused that an agent takes for a command or for one of its clusters. If
// percent signs are doubled on the way, there is no command.
func TestWrong(t *testing.T) {
	const command, cluster = "must not contain %ENVIRONMENT, with which proxies read their environment", "which is a cluster of the proxy's own"
	for _, c := range []struct{ text, wrong, literal string }{
		{"", "", ""},
		{"100 % sure", "", ""},
		{"%ENVIRONMENT(HOME)%", command, ""},
		{"a%ENVIRONMENT", command, ""},
		{"%%ENVIRONMENT", "", ""},
		{"%%%ENVIRONMENT", command, ""},
		{"% %%ENVIRONMENT", command, ""},
		{"@ads_cluster", "must not be @ads_cluster, " + cluster, "must not be @ads_cluster, " + cluster},
		{"@authz", "must not be @authz, " + cluster, "must not be @authz, " + cluster},
		{"a@authz", "", ""},
	} {
		if got := Wrong(c.text); got != c.wrong {
			t.Errorf("%q: %q", c.text, got)
		}
		if got := WrongLiteral(c.text); got != c.literal {
			t.Errorf("%q as literal: %q", c.text, got)
		}
	}
}
