package guides_test

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// Below these an installation has its files, by the guide.
var installedRoots = []string{
	"/opt/meshgate", "/etc/meshgate", "/var/lib/meshgate", "/var/log/meshgate", "/var/backups/meshgate",
	"/usr/local/bin/meshgate", "/etc/systemd/system/meshgate.service", "/root/meshgate.key",
}

// installedPages have commands for an installed service.
var installedPages = [][]string{
	{"docs", "operations", "install.md"}, {"docs", "operations", "README.md"},
	{"docs", "operations", "backup.md"}, {"docs", "operations", "upgrade.md"},
}

// unitFile is the unit of the guide.
func unitFile() string {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "operations", "install.md"))
	Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(page), "```ini\n")
	Expect(found).To(BeTrue())
	text, _, _ := strings.Cut(rest, "```")
	return text
}

// below moves the paths of an installation below a directory.
func below(dir string) *strings.Replacer {
	var pairs []string
	for _, root := range installedRoots {
		pairs = append(pairs, root, dir+root)
	}
	return strings.NewReplacer(pairs...)
}

// standIn stands in for systemd and for the user of the service. Root runs it as nobody,
// so that files of root are out of its reach as they would be; others as themselves.
// OWNER and GROUP are who that is.
const standIn = `
useradd() { :; }
export PATH="$DIR/usr/local/bin:$PATH"
AS_OWNER=(env)
if [ "$(id -u)" = 0 ]; then
  AS_OWNER=(setpriv --reuid="$OWNER" --regid="$GROUP" --init-groups)
else
  printf '#!/bin/sh\nshift 3\nexec "$@"\n' >usr/local/bin/setpriv
  chmod +x usr/local/bin/setpriv
fi
systemctl() {
  case "$*" in
  daemon-reload) ;;
  'enable --now meshgate' | 'start meshgate')
    install -d -o "$OWNER" -g "$GROUP" -m 0700 "$DIR/var/lib/meshgate"
    install -d -o "$OWNER" -g "$GROUP" -m 0750 "$DIR/var/log/meshgate"
    (umask 0077; exec "${AS_OWNER[@]}" $(sed -n 's/^ExecStart=//p' "$DIR/etc/systemd/system/meshgate.service") >>"$DIR/meshgate.log" 2>&1) &
    echo $! >"$DIR/main.pid" ;;
  'stop meshgate')
    kill "$(cat "$DIR/main.pid")"
    while runs; do command sleep 0.1; done ;;
  'restart meshgate') systemctl stop meshgate; systemctl start meshgate ;;
  *) echo "systemctl $*: what is that?"; return 1 ;;
  esac
}
trap 'runs && systemctl stop meshgate' EXIT
runs() { [ -e "/proc/$(cat "$DIR/main.pid")/exe" ]; }
sleep() { runs || { tail -n 5 "$DIR/meshgate.log"; exit 1; }; command sleep "$@"; } # nobody waits for a service that has ended
meshgate() { command meshgate "$@" || [ $? = 2 ]; } # for a moment somebody is behind
`

// traffic gives the first page for operators something to look at.
const traffic = `
echo "## traffic"
A=http://127.0.0.1:8001
curl -sS -o answer $A/services -d name=shop -d host=127.0.0.1 -d port=9100
curl -sS -o answer $A/services/shop/routes -d name=shop -d 'paths[]=/shop'
curl -sS -o answer $A/services/shop/plugins -d name=key-auth
curl -sS -o answer $A/consumers -d username=ann
REVISION=$(curl -sS -o answer -w '%header{x-mesh-revision}' -X PATCH $A/services/shop -d port=9101)
curl -sS -o answer "$A/revisions/$REVISION?wait=10s"
ID=$(curl -sS -o answer -w '%header{x-request-id}' 'http://127.0.0.1:8000/shop' -H 'apikey: wrong')
until grep -qs "$ID" /var/log/meshgate/access.log; do sleep 0.2; done
`

// sound looks whether what was there is there, and belongs to the service.
const sound = `
curl -sS -o answer -w 'ann %{http_code}\n' $A/consumers/ann
echo "of others: $(find /var/lib/meshgate ! -user "$OWNER" | wc -l)"
`

var _ = Describe("an installed service", func() {
	It("is installed, looked at, saved, restored and upgraded by copy and paste", func() {
		me, err := user.Current()
		Expect(err).NotTo(HaveOccurred())
		if me.Uid == "0" {
			me, err = user.Lookup("nobody")
			Expect(err).NotTo(HaveOccurred())
		}
		group, err := user.LookupGroupId(me.Gid)
		Expect(err).NotTo(HaveOccurred())
		dir := checkout()
		Expect(os.Chmod(dir, 0o755)).To(Succeed()) // the service is another user
		for _, d := range []string{"usr/local/bin", "etc/systemd/system", "var/lib", "var/log", "var/backups", "opt", "root"} {
			Expect(os.MkdirAll(filepath.Join(dir, d), 0o755)).To(Succeed())
		}

		_, files, _ := strings.Cut(framework.Guide("docs", "operations", "install.md"), "echo \"## Files\"\n")
		files, _, _ = strings.Cut(files, "echo \"## ")
		script := "PREFIX=/opt/meshgate\n" + files
		for i, page := range installedPages {
			script += framework.Installed(page...)
			script += []string{traffic, "", "\necho '## After the restore'" + sound, "\necho '## After the way back'" + sound + "systemctl stop meshgate\necho '## The end'\n"}[i]
		}
		owned := strings.NewReplacer("-o meshgate -g meshgate", "-o "+me.Username+" -g "+group.Name, "chgrp meshgate", "chgrp "+group.Name,
			"--reuid=meshgate --regid=meshgate", "--reuid="+me.Username+" --regid="+group.Name)
		script = below(dir).Replace(owned.Replace(script))
		unit := below(dir).Replace(unitFile())
		Expect(os.WriteFile(filepath.Join(dir, "etc/systemd/system/meshgate.service"), []byte(unit), 0o600)).To(Succeed())

		out := session(dir, standIn+script, "OWNER="+me.Username, "GROUP="+group.Name, "MESHGATE_DRAIN_DELAY=0s")
		const connected = `(?m)^1 nodes: 1 connected`
		Expect(out["As a service"]).To(And(ContainSubstring(`{"message":"ready"`), MatchRegexp(connected)))
		Expect(out["Who is connected, and in step?"]).To(MatchRegexp(`(?m)^cp/default/gateway-1 +gateway +connected `))
		Expect(out["What does this proxy really have?"]).To(And(
			MatchRegexp(`(?m)^Listener +gateway:http:\d+ +[0-9a-f]{12} +same +acknowledged `), ContainSubstring("0 rejected; in Envoy 0 differ, 0 are absent, 0 extra")))
		Expect(out["Why was this request refused?"]).To(And(ContainSubstring(`"status":401,"decision":"refused","reason":"key_unknown","route":"shop","service":"shop"`),
			MatchRegexp(`(?m)^\S+Z\t401\tkey_unknown\tshop\t\t/shop$`)))
		Expect(out["What changed last, and by whom?"]).To(MatchRegexp(`(?m)user:mesh-system:admin +updated +service +default +shop +/port \d+ -> \d+$`))
		Expect(out["Is anything about to break?"]).To(And(HavePrefix("ready\nready\n"), MatchRegexp(`(?m)^control-plane-ca `), ContainSubstring("Filesystem")))
		for _, page := range []string{out["Of an installed service"], out["An installed service"]} {
			Expect(page).To(And(ContainSubstring("Revoke again what was revoked after"), MatchRegexp(connected)))
		}
		Expect([]string{out["After the restore"], out["After the way back"]}).To(HaveEach("ann 200\nof others: 0"))
	})

	It("has a unit that systemd understands", func() {
		verify, err := exec.LookPath("systemd-analyze")
		if err != nil {
			Skip("there is no systemd-analyze here")
		}
		dir := GinkgoT().TempDir()
		unit := filepath.Join(dir, "meshgate.service")
		// It looks for the program.
		text := strings.Replace(unitFile(), "ExecStart=/opt/meshgate/meshgate ", "ExecStart="+framework.Binary()+" ", 1)
		Expect(os.WriteFile(unit, []byte(text), 0o600)).To(Succeed())
		p := framework.Start(nil, verify, "verify", unit)
		Expect(p.Exit(patience)).To(Equal(0), p.Output())
		Expect(p.Output()).To(BeEmpty(), "what it does not know, it only tells")
	})

	It("has the same names on every page", func() {
		unit := unitFile()
		setting := func(name string) string {
			GinkgoHelper()
			m := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
			Expect(m).NotTo(BeNil(), name)
			return m[1]
		}
		Expect(setting("ExecStart")).To(Equal("/opt/meshgate/meshgate standalone --config /etc/meshgate/meshgate.yaml"))
		Expect("/var/lib/" + setting("StateDirectory")).To(Equal("/var/lib/meshgate"))
		Expect("/var/log/" + setting("LogsDirectory")).To(Equal("/var/log/meshgate"))
		Expect(setting("ReadWritePaths")).To(Equal("-/var/backups/meshgate"))
		Expect(setting("User")).To(Equal("meshgate"))
		path := regexp.MustCompile(`(?:^|[\s"'=>])(/[a-z][\w./-]*)`)
		for _, page := range installedPages {
			for _, m := range path.FindAllStringSubmatch(framework.Installed(page...), -1) {
				if m[1] == "/usr/sbin/nologin" || m[1] == "/dev/null" {
					continue
				}
				Expect(installedRoots).To(ContainElement(Satisfy(func(root string) bool { return strings.HasPrefix(m[1], root) })), "%s of %s", m[1], page)
			}
		}
	})
})
