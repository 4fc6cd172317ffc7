package guides_test

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// stored prints what the control plane of the start has, without times. It asks what there is
// to ask for, so that a new kind is looked at, too.
const stored = `
stored() {
  echo "# stored"
  for path in $(curl -sS $M/policies | jq -r '.policies[].path') external-services virtual-outbounds dataplanes; do
    echo "$path $(curl -sS $M/meshes/shop/$path | grep -vE '"(creation|modification)Time"')"
  done
  for path in services routes plugins consumers; do echo "$path $(curl -sS http://127.0.0.1:8001/$path)"; done
  ls -d *.status *.posted */logs/* 2>/dev/null || true
}
`

// policyPages are the names of the pages, in the order of their files.
func policyPages() (names []string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(framework.Root(), "docs", "policies", "*.md"))
	Expect(err).NotTo(HaveOccurred())
	for _, f := range files {
		if name := filepath.Base(f); name != "README.md" {
			names = append(names, name)
		}
	}
	Expect(names).NotTo(BeEmpty())
	return names
}

// outward reports whether this machine has an address that is not its loopback, which services
// outside the mesh need.
func outward() bool {
	all, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return true
		}
	}
	return false
}

// varying is what differs from run to run in answers: counts before and after words, ports,
// and numbers with a dot, such as times. In a transcript "…" stands for anything; on a line of
// its own, for any lines.
var varying = []struct {
	text *regexp.Regexp
	mark string
	// pattern is what the mark means.
	pattern string
}{
	{regexp.MustCompile(`(?m)^…$`), "\x01", `(?s:.*)`},
	{regexp.MustCompile(`…`), "\x02", `.*`},
	{regexp.MustCompile(`(?m)^ +\d+ `), "\x03", ` *\d+ `},
	{regexp.MustCompile(`(?m): [1-9]\d*$`), "\x04", `: [1-9]\d*`}, // nothing is something else than some
	{regexp.MustCompile(`\d{4,}|\d+\.\d+`), "\x05", `[\d.]+`},
	{regexp.MustCompile(` {2,}`), "\x06", ` +`},
}

// shape is the pattern of a transcript.
func shape(transcript string) string {
	t := strings.Trim(transcript, "\n")
	for _, v := range varying {
		t = v.text.ReplaceAllLiteralString(t, v.mark)
	}
	t = regexp.QuoteMeta(t)
	for _, v := range varying {
		t = strings.ReplaceAll(t, v.mark, v.pattern)
	}
	return "^" + t + "$"
}

// expectShown compares what was printed under each heading with what the page shows there.
func expectShown(chapters map[string]string, page ...string) {
	GinkgoHelper()
	for title, shown := range framework.Transcript(page...) {
		if title != "" {
			Expect(strings.Trim(chapters[title], "\n")).To(MatchRegexp(shape(shown)), "%s, %q", page, title)
		}
	}
}

// counted is how often an answer was counted by "uniq -c".
func counted(text, answer string) int {
	GinkgoHelper()
	m := regexp.MustCompile(`(?m)^ *(\d+) ` + regexp.QuoteMeta(answer) + `$`).FindStringSubmatch(text)
	Expect(m).NotTo(BeNil(), "%s in %s", answer, text)
	n, err := strconv.Atoi(m[1])
	Expect(err).NotTo(HaveOccurred())
	return n
}

// numbers hold what the shape of a transcript does not: how many of the answers are which.
var numbers = map[string]func(seen string){
	"circuit-breaker.md": func(seen string) {
		// The main thread of Envoy leaves it out, a moment after the third; what comes until then is for chance.
		Expect(counted(seen, "backend-v1 503")).To(BeNumerically(">=", 3), "failures until it is left out")
		_, after, _ := strings.Cut(seen, "ejections_active: 1\n")
		Expect(counted(after, "backend-v2 200")).To(Equal(20), "when it is left out")
	},
	"fault-injection.md": func(seen string) {
		// One run in five million is outside by chance.
		Expect(counted(seen, "fault filter abort 418")).To(BeNumerically("~", 50, 25), "half of them")
		var took float64
		_, err := fmt.Sscanf(seen[strings.LastIndex(strings.TrimSpace(seen), "\n")+1:], "%f s", &took)
		Expect(err).NotTo(HaveOccurred())
		// Envoy counts from the time at which its thread woke, which is a little earlier than curl's.
		Expect(took).To(BeNumerically(">=", 0.25), "a delay of 300 ms")
	},
	"rate-limit.md": func(seen string) {
		Expect(counted(seen, "backend-v1 200")).To(BeNumerically("<", 10))
		Expect(counted(seen, "backend-v2 200")).To(BeNumerically("<", 10))
	},
	"traffic-route.md": func(seen string) {
		// One run in a billion has more by chance. Half of them would be 100.
		Expect(counted(seen, "backend-v2 200")).To(BeNumerically("<=", 50), "a tenth of 200")
	},
}

var _ = Describe("docs/policies", func() {
	It("has pages that can be followed by copy and paste, and leave everything as they found it", func() {
		start, clean, found := strings.Cut(framework.Guide("docs", "policies", "README.md"), "echo \"## Clean up\"\n")
		Expect(found).To(BeTrue())
		pages := policyPages()
		script := start + stored + "stored\n"
		for _, page := range pages {
			if page == "external-service.md" && !outward() {
				AddReportEntry(page + " was not run: this machine has no address but its loopback")
				continue
			}
			script += "echo '# page " + page + "'\n" + framework.Guide("docs", "policies", page) + "\nstored\n"
		}
		printed := strings.ReplaceAll(perform(checkout(), script+clean), "\r", "") // headers have it, and nobody sees it
		parts := strings.Split(printed, "# page ")
		read := func(name, part string) (state string) {
			seen, state, found := strings.Cut(part, "# stored\n")
			Expect(found).To(BeTrue(), part)
			chapters := framework.Chapters(seen)
			expectShown(chapters, "docs", "policies", name)
			if check := numbers[name]; check != nil {
				check(chapters["See it"])
			}
			return state
		}
		before := read("README.md", parts[0])
		for _, part := range parts[1:] {
			name, rest, _ := strings.Cut(part, "\n")
			By(name)
			Expect(read(name, rest)).To(Equal(before), "what there is after "+name)
		}
	})
})
