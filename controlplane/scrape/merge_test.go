package scrape

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// parsed reads a page as other programs do. A page that is not in order fails the test.
func parsed(t testing.TB, page []byte) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	out, err := parser.TextToMetricFamilies(strings.NewReader(string(page)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, page)
	}
	return out
}

// TestLines: what is in order comes out in one form, and everything else is left out.
func TestLines(t *testing.T) {
	for line, want := range map[string]string{
		"a 1":                        "a 1",
		"a\t 1 \t5 ":                 "a 1 5",
		"a:b_c9 1e3":                 "a:b_c9 1e3",
		`a{} 1`:                      "a 1",
		`a{ z = "1" , b="2",}1`:      `a{b="2",z="1"} 1`,
		`a{b="\\\"\n{},"} -0.5`:      `a{b="\\\"\n{},"} -0.5`,
		`a{b="é"} nan`:               `a{b="é"} NaN`,
		"a -inf":                     "a -Inf",
		"a Infinity":                 "a +Inf",
		"":                           "",
		"a":                          "",
		"a ":                         "",
		"a 1 2 3":                    "",
		"a 1 -5":                     "", // before 1970 nothing was counted
		"a 1 1.5":                    "",
		"a 1 1234567890123456789":    "",
		"a 0x10":                     "",
		"a 1_0":                      "",
		"a 1e999":                    "",
		"a 1\r":                      "",
		"a one":                      "",
		" a 1":                       "",
		"9a 1":                       "",
		"a-b 1":                      "",
		"a{b=\"\x00\"} 1":            "",
		"a{b=\"\xff\"} 1":            "",
		`a{b="\t"} 1`:                "",
		`a{b="} 1`:                   "",
		`a{b="1",b="2"} 1`:           "",
		`a{b="1" c="2"} 1`:           "",
		`a{,} 1`:                     "",
		`a{b:c="1"} 1`:               "",
		`a{__name__="up"} 1`:         "",
		`a{"b"="1"} 1`:               "",
		`{"a"} 1`:                    "",
		`a{b="1"`:                    "",
		`a{b="1"} 1 # {trace="x"} 1`: "",
		"a{b=\"" + strings.Repeat("x", 64<<10) + `"} 1`: "",
		"a{" + manyLabels(maxLabels+1) + "} 1":          "",
	} {
		got := ""
		if s, ok := parseSample([]byte(line), nil); ok {
			got = strings.TrimSuffix(string(s.appendTo(nil)), "\n")
		}
		if got != want {
			t.Errorf("%.100q: %q, want %q", line, got, want)
		}
	}
}

func manyLabels(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`l%d="x"`, i))
	}
	return strings.Join(all, ",")
}

func TestMerge(t *testing.T) {
	for _, tt := range []struct {
		name, envoy string
		apps        []string
		want        string
		reports     []Report // Envoy's first
	}{
		{
			"families are together", "# TYPE envoy_a counter\nenvoy_a{x=\"1\"} 1\n# TYPE envoy_b gauge\nenvoy_b 2\nenvoy_a{x=\"2\"} 3\n",
			[]string{"# HELP a what\n# TYPE a counter\na{app=\"1\"} 1\n", "# HELP a other\n# TYPE a counter\na{app=\"2\"} 1\n"},
			"# TYPE envoy_a counter\nenvoy_a{x=\"1\"} 1\nenvoy_a{x=\"2\"} 3\n# TYPE envoy_b gauge\nenvoy_b 2\n# HELP a what\n# TYPE a counter\na{app=\"1\"} 1\na{app=\"2\"} 1\n",
			[]Report{{Samples: 3}, {Samples: 1}, {Samples: 1}},
		},
		{
			"types below the samples", "", []string{"a 1\n# TYPE a counter\n"}, "# TYPE a counter\na 1\n", []Report{{}, {Samples: 1}},
		},
		{
			"no type", "", []string{"a_sum 1\n"}, "# TYPE a_sum untyped\na_sum 1\n", []Report{{}, {Samples: 1}},
		},
		{
			"names that are not for applications", "", []string{"envoy_a 1\nmeshgate_scrape_up{application=\"x\"} 1\nup 1\n# TYPE envoy histogram\nenvoy_count 1\na 1\n"},
			"# TYPE a untyped\na 1\n", []Report{{}, {Samples: 1, Reserved: 4}},
		},
		{
			"what Envoy counts is Envoy's", "# TYPE server_live gauge\nserver_live 1\n", []string{"# TYPE server_live gauge\nserver_live{x=\"1\"} 0\n"},
			"# TYPE server_live gauge\nserver_live 1\n", []Report{{Samples: 1}, {Conflicts: 1}},
		},
		{
			"series that are there already", "", []string{"a{x=\"1\",y=\"2\"} 1\n", "a{y=\"2\",x=\"1\"} 2 7\na{y=\"3\"} 3\na{ y=\"3\" } 4\n"},
			"# TYPE a untyped\na{x=\"1\",y=\"2\"} 1\na{y=\"3\"} 3\n", []Report{{}, {Samples: 1}, {Samples: 1, Duplicates: 2}},
		},
		{
			"bounds that are equal", "", []string{"# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"1.0\"} 2\na_bucket{le=\"+Inf\"} 2\na_count 2\na_sum 3\n"},
			"# TYPE a histogram\na_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_count 2\na_sum 3\n", []Report{{}, {Samples: 4, Duplicates: 1}},
		},
		{
			"samples that no histogram or summary has", "", []string{"# TYPE a histogram\na 1\na_bucket 1\na_bucket{le=\"x\"} 1\n# TYPE b summary\nb 1\nb_count 1\n"},
			"# TYPE b summary\nb_count 1\n", []Report{{}, {Samples: 1, Malformed: 4}},
		},
		{
			"another type", "", []string{"# TYPE a counter\na 1\n", "# TYPE a gauge\na{x=\"1\"} 1\nb 1\n"},
			"# TYPE a counter\na 1\n# TYPE b untyped\nb 1\n", []Report{{}, {Samples: 1}, {Samples: 1, Conflicts: 1}},
		},
		{
			"a name in two families", "", []string{"# TYPE a histogram\na_count 1\n", "# TYPE a_count counter\na_count 2\n# TYPE a summary\na_sum 1\n", "# TYPE b_sum gauge\nb_sum 1\n", "# TYPE b summary\nb_sum 1\n"},
			"# TYPE a histogram\na_count 1\n# TYPE b_sum gauge\nb_sum 1\n", []Report{{}, {Samples: 1}, {Conflicts: 2}, {Samples: 1}, {Conflicts: 1}},
		},
		{
			"garbage", "", []string{"<html>\n# TYPE a thing\n# TYPE b counter\n# TYPE b gauge\n# HELP b \\x\n# HELP\n#\nb 1"}, "# TYPE b counter\nb 1\n", []Report{{}, {Samples: 1, Malformed: 3}},
		},
		{
			"a line that is not in order takes no name", "", []string{"# TYPE a summary\na 1\n", "# TYPE a counter\na 2\n"}, "# TYPE a counter\na 2\n", []Report{{}, {Malformed: 1}, {Samples: 1}},
		},
		{
			"bounds that are no plain numbers, or in the wrong place", "", []string{
				"# TYPE a histogram\na_sum{le=\"abc\"} 1\na_count{le=\"abc\"} 1\na_count{le=\"1\"} 1\na_bucket{le=\"0x1p3\"} 1\na_bucket{le=\"1_0\"} 1\na_bucket{le=\"1\"} 1\n" +
					"# TYPE b summary\nb{quantile=\"abc\"} 1\nb_sum{quantile=\"abc\"} 1\nb_count{quantile=\"0.5\"} 1\nb{quantile=\"0.5\"} 1\n# TYPE c counter\nc{le=\"abc\",quantile=\"abc\"} 1\n",
			},
			"# TYPE a histogram\na_bucket{le=\"1\"} 1\n# TYPE b summary\nb{quantile=\"0.5\"} 1\n# TYPE c counter\nc{le=\"abc\",quantile=\"abc\"} 1\n", []Report{{}, {Samples: 3, Malformed: 8}},
		},
		{
			"an earlier application has a name", "", []string{"# TYPE a gauge\na 1\n", "# TYPE a counter\na{x=\"1\"} 2\nb 2\n"},
			"# TYPE a gauge\na 1\n# TYPE b untyped\nb 2\n", []Report{{}, {Samples: 1}, {Samples: 1, Conflicts: 1}},
		},
		{
			"the same in the other order", "", []string{"# TYPE a counter\na{x=\"1\"} 2\nb 2\n", "# TYPE a gauge\na 1\n"},
			"# TYPE a counter\na{x=\"1\"} 2\n# TYPE b untyped\nb 2\n", []Report{{}, {Samples: 2}, {Conflicts: 1}},
		},
		{"names that are taken", "taken 1\n# TYPE taken2 gauge\ntaken2 1\n", []string{"taken 1\n"}, "", []Report{{Conflicts: 2}, {Conflicts: 1}}},
	} {
		var sources []Source
		for _, text := range tt.apps {
			sources = append(sources, Source{Text: []byte(text)})
		}
		page, ofEnvoy, reports := Merge([]byte(tt.envoy), sources, "taken", "taken2")
		if diff := cmp.Diff(tt.want, string(page)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.reports, append([]Report{ofEnvoy}, reports...)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
		parsed(t, page)
	}
}

// TestFamilyIsEscaped: the name of an application cannot leave its label.
func TestFamilyIsEscaped(t *testing.T) {
	name := "a\"}\n\\b\xff\x00"
	f := Family{Name: "f", Help: "h", Series: []Series{{map[string]string{"application": name}, 1}}}
	got := parsed(t, f.appendTo(nil))["f"].GetMetric()[0].GetLabel()[0].GetValue()
	if got != "a\"}\n\\b\uFFFD\uFFFD" {
		t.Errorf("%q", got)
	}
}

// FuzzMerge: whatever sources say, the page is in order, what it has it takes again as it is, and
// nothing of an application has a name that is not for it.
func FuzzMerge(f *testing.F) {
	f.Add([]byte("# TYPE envoy_a counter\nenvoy_a 1\n"), []byte("# HELP a \\n\n# TYPE a histogram\na_bucket{le=\"1\"} 1 5\na_sum 1\n"), []byte("a_count 1\n# TYPE b summary\nb{quantile=\"NaN\"} nan\n"))
	f.Add([]byte("a 1"), []byte("# TYPE a gauge\na{b=\"\\\\\"} 1e5\nup 1\n"), []byte("{\"a\"} 1\na{b=\"\xff\"} 1\n"))
	f.Add([]byte("# TYPE envoy_a histogram\nenvoy_a_sum{le=\"abc\"} 1\n"), []byte("# TYPE a histogram\na_count{le=\"abc\"} 1\na_bucket{le=\"0x1p3\"} 1\n"), []byte("# TYPE b summary\nb_sum{quantile=\"abc\"} 1\nb{quantile=\"1_0\"} 1\n"))
	f.Fuzz(func(t *testing.T, envoy, one, other []byte) {
		page, ofEnvoy, reports := Merge(envoy, []Source{{Text: one}, {Text: other}})
		families := parsed(t, page)
		again, report, _ := Merge(page, nil)
		if string(again) != string(page) || report != (Report{Samples: ofEnvoy.Samples + reports[0].Samples + reports[1].Samples}) {
			t.Fatalf("%+v: the page is taken again as another one\n%s\n%s", report, page, again)
		}
		own, _, _ := Merge(envoy, nil)
		for name := range families {
			if isReserved([]byte(name)) && !slices.Contains(names(parsed(t, own)), name) {
				t.Fatalf("an application has %s", name)
			}
		}
	})
}

func names(of map[string]*dto.MetricFamily) (out []string) {
	for name := range of {
		out = append(out, name)
	}
	return out
}

// statistics are n lines as Envoy and applications have them.
func statistics(prefix string, n int) []byte {
	var b strings.Builder
	for i := range n / 20 {
		fmt.Fprintf(&b, "# TYPE %s_cluster_upstream_%d counter\n", prefix, i)
		for j := range 20 {
			fmt.Fprintf(&b, "%s_cluster_upstream_%d{envoy_cluster_name=\"service-%d\",envoy_response_code_class=\"2\"} %d\n", prefix, i, j, i*j)
		}
	}
	return []byte(b.String())
}

func BenchmarkMerge(b *testing.B) {
	envoy, apps := statistics("envoy", 20_000), []Source{{Text: statistics("a", 2000)}, {Text: statistics("b", 2000)}}
	b.SetBytes(int64(len(envoy) + len(apps[0].Text) + len(apps[1].Text)))
	b.ReportAllocs()
	for b.Loop() {
		Merge(envoy, apps)
	}
}
