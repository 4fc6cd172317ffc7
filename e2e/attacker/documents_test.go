package attacker_test

import (
	"fmt"
	"strings"
)

// operate calls an operation that there is, without anything that keeps her from it, so that
// what she sends is read.
func (a *attack) operate() {
	a.path = "/" + a.target.name
	if a.target.methods != nil {
		a.method = pick(a, a.target.methods...)
	}
	if a.chance(20) {
		a.query(pick(a, "size=-1", "size=99999999999999999999", "offset=%00", "offset=Zm9v", "page[size]=1e9", "page%5Bnumber%5D=-1", "tags=a,b/c", "dryRun=All&dryRun=", "a;b=c", "filter[name][eq]=%ff", "fieldValidation=x", strings.Repeat("a=b&", 3000)))
	}
	if a.method != "GET" && a.method != "HEAD" && a.method != "OPTIONS" {
		a.document()
	}
	if a.chance(10) {
		a.malform()
	}
}

// document sends what a handler that reads documents has to bound: depth, size, names,
// numbers, encodings, and what it is said to be.
func (a *attack) document() {
	depth := pick(a, 10, 100, 10_000, 200_000)
	long := strings.Repeat("a", pick(a, 1, 1000, 300_000))
	a.add("Content-Type", pick(a, "application/json", "application/json", "application/json", "application/json", "application/yaml", "text/plain",
		"application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "multipart/form-data", "application/merge-patch+json", "application/json; charset=utf-16", "", "/"))
	a.body = pick(a,
		"{}", "null", "[]", "0", `""`, "{", "\xef\xbb\xbf{}", "{}{}", `{"name":`,
		strings.Repeat("[", depth), strings.Repeat(`{"a":`, depth), `{"config":`+strings.Repeat("[", depth)+strings.Repeat("]", depth)+"}",
		fmt.Sprintf(`{"name":%q}`, long), fmt.Sprintf(`{"name":"x","name":%q}`, a.id), fmt.Sprintf(`{"name":"x","tags":[%s"x"]}`, strings.Repeat(`"x",`, depth)),
		`{"name":"\ud800","type":"Mesh","mesh":"\u0000"}`, "{\"name\":\"\xff\xfe\"}", `{"name":1e999999,"port":-1e400}`, `{"port":99999999999999999999999}`, `{"__proto__":{"a":1}}`,
		`{"type":"Mesh","name":"default","mtls":{"enabledBackend":"x","backends":[{"name":"x","type":"builtin"}]}}`,
		`{"type":"TrafficPermission","mesh":"default","name":"x","sources":[{"match":{}}],"destinations":null}`,
		`{"name":"x","host":"../../etc/passwd","url":"http://[::1%25lo]:99999/"}`, `{"paths":["~("],"hosts":["*.*"],"protocols":[null]}`,
		"a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n", "? [a]\n: !!binary x\n",
		strings.Repeat("a=b&", depth), "a"+strings.Repeat("[a]", min(depth, 10_000))+"=b", "a[0]=x&a[999999999]=y&a[-1]=z&a=b",
		"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n"+long+"\r\n--b--\r\n", "--b\r\n\r\n", strings.Repeat("--b\r\n\r\n", min(depth, 10_000)), "\x1f\x8b\x08\x00\x00\x00\x00\x00",
	)
	if a.chance(15) {
		a.add("Content-Encoding", pick(a, "gzip", "deflate", "identity", "br, gzip", "x"))
	}
}
