package accesslogs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	recordv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshgate/meshgate/controlplane/localsocket"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/logsink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what has no bound of its own.
const patience = time.Minute

func value(s string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: s}}
}

func values(all ...*commonv1.AnyValue) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_ArrayValue{ArrayValue: &commonv1.ArrayValue{Values: all}}}
}

// batch is a call with lines for a sink.
func batch(sink string, lines ...string) *logsv1.ExportLogsServiceRequest {
	var records []*recordv1.LogRecord
	for _, l := range lines {
		records = append(records, &recordv1.LogRecord{Body: value(l)})
	}
	return &logsv1.ExportLogsServiceRequest{ResourceLogs: []*recordv1.ResourceLogs{{
		Resource:  &resourcev1.Resource{Attributes: []*commonv1.KeyValue{{Key: logsink.Attribute, Value: value(sink)}}},
		ScopeLogs: []*recordv1.ScopeLogs{{LogRecords: records}},
	}}}
}

// serving runs a receiver for the time of a test, and returns it with a client of its socket.
func serving(t *testing.T, o Options) (*Receiver, logsv1.LogsServiceClient) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Reaches == nil {
		o.Reaches = func(string, uint16) error { return nil }
	}
	if o.MaxSize == 0 {
		o.MaxSize, o.Keep = 1<<20, 2
	}
	r := New(o)
	path := filepath.Join(t.TempDir(), "l.sock")
	lis, err := localsocket.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, lis) }()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, logsv1.NewLogsServiceClient(conn)
}

func set(r *Receiver, sinks ...logsink.Sink) {
	t := logsink.Table{Address: "192.0.2.7", Sinks: map[string]logsink.Sink{}}
	for _, s := range sinks {
		t.Sinks[s.Name()] = s
	}
	r.Set(t)
}

func send(t *testing.T, c logsv1.LogsServiceClient, in *logsv1.ExportLogsServiceRequest) {
	t.Helper()
	if _, err := c.Export(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("never: %s", what)
		}
	}
}

func content(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// TestFile: lines for a file that was told arrive there, in order; those for others nowhere.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	r, c := serving(t, Options{Directories: []string{dir}})
	s := logsink.Sink{File: filepath.Join(dir, "team", "a.log")}
	set(r, s)
	send(t, c, batch(s.Name(), "one", "two"))
	send(t, c, batch(logsink.Sink{File: filepath.Join(dir, "other.log")}.Name(), "stranger"))
	send(t, c, batch("", "stranger"))
	send(t, c, batch(s.Name(), "three"))
	until(t, "the lines are there", func() bool { return content(s.File) == "one\ntwo\nthree\n" })
	if _, err := os.Stat(filepath.Join(dir, "other.log")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file that no configuration names was written")
	}
	if info, err := os.Stat(s.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
}

// TestRefused: what may not be written is refused, with a reason, and nothing is opened.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	r, _ := serving(t, Options{Directories: []string{dir}, Reaches: func(host string, _ uint16) error {
		if host == "169.254.169.254" {
			return errors.New("machines are told secrets there")
		}
		return nil
	}})
	for name, c := range map[string]struct {
		sink logsink.Sink
		want string
	}{
		"elsewhere": {logsink.Sink{File: "/etc/cron.d/x"}, "--access-log-dir"},
		"above":     {logsink.Sink{File: dir + "/../x"}, "without . and .."},
		"beside":    {logsink.Sink{File: dir + "-other/x"}, "--access-log-dir"},
		"aside":     {logsink.Sink{File: dir + "/a.log.1"}, "must not end with a dot and a number"},
		"long name": {logsink.Sink{File: dir + "/" + strings.Repeat("n", 255)}, "no name longer than 240"},
		"line end":  {logsink.Sink{File: dir + "/a\nb"}, "control characters"},
		"metadata":  {logsink.Sink{TCP: "169.254.169.254:80"}, "told secrets"},
		"no port":   {logsink.Sink{TCP: "192.0.2.1"}, "missing port"},
	} {
		set(r, c.sink)
		if reason, text := r.Trouble(); reason != ReasonRefused || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s, %q", name, reason, text)
		}
	}
	set(r, logsink.Sink{File: "good.log"})
	if reason, text := r.Trouble(); reason != "" {
		t.Errorf("a good sink: %s, %s", reason, text)
	}
}

// TestIdleSinksTakeNoPlace: a proxy is told of more sinks than it writes to. Only those with lines
// are bounded, and one that is taken away makes room.
func TestIdleSinksTakeNoPlace(t *testing.T) {
	dir := t.TempDir()
	r, c := serving(t, Options{Directories: []string{dir}})
	var many []logsink.Sink
	for i := range 3 * maxSinks {
		many = append(many, logsink.Sink{File: filepath.Join(dir, fmt.Sprintf("%d.log", i))})
	}
	set(r, many...)
	used := many[2*maxSinks:]
	for _, s := range used {
		send(t, c, batch(s.Name(), "line"))
	}
	for _, s := range used {
		until(t, s.File, func() bool { return content(s.File) == "line\n" })
	}
	if reason, text := r.Trouble(); reason != "" {
		t.Errorf("%s: %s", reason, text)
	}
	send(t, c, batch(many[0].Name(), "too many"))
	if reason, text := r.Trouble(); reason != ReasonRefused || text != "file "+many[0].File+": a proxy writes to at most 64 sinks" {
		t.Errorf("%s: %s", reason, text)
	}
	set(r, append(used[1:], many[0])...)
	until(t, "there is room", func() bool {
		send(t, c, batch(many[0].Name(), "room"))
		return strings.HasPrefix(content(many[0].File), "room\n")
	})
	if reason, text := r.Trouble(); reason != "" {
		t.Errorf("%s: %s", reason, text)
	}
}

// TestEveryWorkerHasAConnection: no worker of a machine with many is kept out.
func TestEveryWorkerHasAConnection(t *testing.T) {
	const workers = 80
	path := filepath.Join(t.TempDir(), "l.sock")
	lis, err := localsocket.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r := New(Options{Workers: workers, Log: slog.New(slog.DiscardHandler), Changed: func() {}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, lis) }()
	defer func() { stop(); <-done }()
	for n := range 2 * workers { // those of an Envoy that drains, and of the next one
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatalf("connection %d is not served: %v", n, err)
		}
	}
}

// TestLinks: no symbolic link leads out of the directory, and nothing but a file is written.
func TestLinks(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.WriteFile(outside, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "link.log")), os.Mkdir(filepath.Join(dir, "dir.log"), 0o700)); err != nil {
		t.Fatal(err)
	}
	r, c := serving(t, Options{Directories: []string{dir}})
	for _, name := range []string{"link.log", "dir.log"} {
		s := logsink.Sink{File: filepath.Join(dir, name)}
		set(r, s)
		send(t, c, batch(s.Name(), "evil"))
		until(t, name+" is refused", func() bool { reason, _ := r.Trouble(); return reason == ReasonFailing })
	}
	if content(outside) != "" {
		t.Error("a link was followed out of the directory")
	}
}

// TestPassingFailure: a sink that fails is tried again, and then has the lines of the meantime.
func TestPassingFailure(t *testing.T) {
	dir := t.TempDir()
	s := logsink.Sink{File: filepath.Join(dir, "sub", "a.log")}
	if err := os.WriteFile(filepath.Join(dir, "sub"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, c := serving(t, Options{Directories: []string{dir}})
	set(r, s)
	send(t, c, batch(s.Name(), "one"))
	until(t, "it fails", func() bool { reason, _ := r.Trouble(); return reason == ReasonFailing })
	set(r, s) // told again, as after configuration that Envoy refused: nothing is forgotten
	if err := os.Remove(filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	until(t, "it works", func() bool { reason, _ := r.Trouble(); return reason == "" && content(s.File) == "one\n" })
}

// TestRotation: a file is put aside when it is large, a fixed number of times, and one that
// somebody has moved away is begun anew.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	r, c := serving(t, Options{Directories: []string{dir}, MaxSize: 10, Keep: 2})
	s := logsink.Sink{File: filepath.Join(dir, "a.log")}
	set(r, s)
	for _, l := range []string{"1234567", "2234567", "3234567", "4234567"} {
		send(t, c, batch(s.Name(), l))
		until(t, l, func() bool { return content(s.File) == l+"\n" })
	}
	if content(s.File+".1") != "3234567\n" || content(s.File+".2") != "2234567\n" {
		t.Errorf("put aside: %q, %q", content(s.File+".1"), content(s.File+".2"))
	}
	if _, err := os.Stat(s.File + ".3"); !errors.Is(err, os.ErrNotExist) {
		t.Error("too many are kept")
	}
	if err := os.Rename(s.File, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	send(t, c, batch(s.Name(), "new"))
	until(t, "it is begun anew", func() bool { return content(s.File) == "new\n" })
}

// TestRotationThatFails is said, and all is well once it succeeds.
func TestRotationThatFails(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "a.log.1", "in")
	if err := os.MkdirAll(in, 0o700); err != nil {
		t.Fatal(err)
	}
	r, c := serving(t, Options{Directories: []string{dir}, MaxSize: 10, Keep: 1})
	s := logsink.Sink{File: filepath.Join(dir, "a.log")}
	set(r, s)
	send(t, c, batch(s.Name(), "1234567"))
	until(t, "there is something to put aside", func() bool { return content(s.File) != "" })
	send(t, c, batch(s.Name(), "2234567"))
	until(t, "it is said", func() bool {
		reason, text := r.Trouble()
		return reason == ReasonFailing && strings.Contains(text, "put the file aside")
	})
	if err := os.RemoveAll(filepath.Dir(in)); err != nil {
		t.Fatal(err)
	}
	send(t, c, batch(s.Name(), "last"))
	until(t, "it is well", func() bool {
		reason, _ := r.Trouble()
		return reason == "" && strings.HasSuffix(content(s.File), "last\n")
	})
}

// TestServerThatComesBack: lines wait for a server, and arrive when it is there.
func TestServerThatComesBack(t *testing.T) {
	free, err := ports.Free(1) // nobody else is given it meanwhile
	if err != nil {
		t.Fatal(err)
	}
	s := logsink.Sink{TCP: fmt.Sprintf("127.0.0.1:%d", free[0])}
	r, c := serving(t, Options{})
	set(r, s)
	send(t, c, batch(s.Name(), "one", "two"))
	until(t, "it is said", func() bool { reason, _ := r.Trouble(); return reason == ReasonFailing })
	lis, err := net.Listen("tcp", s.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewScanner(conn)
	for _, want := range []string{"one", "two"} {
		if !in.Scan() || in.Text() != want {
			t.Fatalf("got %q, want %q", in.Text(), want)
		}
	}
	until(t, "it is well", func() bool { reason, _ := r.Trouble(); return reason == "" })
}

// TestServerThatNeverReads costs a bounded queue; what does not fit is counted and said.
func TestServerThatNeverReads(t *testing.T) {
	// The kernel takes megabytes for a connection, and for each of the next ones. Who sends slowly
	// would fill no queue.
	small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
		return errors.Join(err, set)
	}}
	lis, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	r, c := serving(t, Options{})
	s := logsink.Sink{TCP: lis.Addr().String()}
	set(r, s)
	send(t, c, batch(s.Name(), "first"))
	r.mu.Lock()
	got := r.sinks[s.Name()]
	r.mu.Unlock()
	long := []byte(strings.Repeat("x", 60<<10) + "\n")
	until(t, "lines are dropped", func() bool {
		for range 2 * maxQueue / len(long) { // as a call does, which takes long on a busy machine
			got.put(long)
		}
		reason, text := r.Trouble()
		return reason != "" && strings.Contains(text, "dropped")
	})
	got.mu.Lock()
	defer got.mu.Unlock()
	if len(got.queue) > maxQueue {
		t.Errorf("%d bytes wait", len(got.queue))
	}
}

// TestResolvedAddress: a name that leads where the machine may not is refused when it is resolved.
func TestResolvedAddress(t *testing.T) {
	r, c := serving(t, Options{Reaches: func(host string, _ uint16) error {
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
			return errors.New("not there")
		}
		return nil
	}})
	s := logsink.Sink{TCP: "localhost:9"}
	set(r, s)
	send(t, c, batch(s.Name(), "line"))
	until(t, "it is refused", func() bool { _, text := r.Trouble(); return strings.Contains(text, "not there") })
}

// TestLastLines: what is queued is written when the receiver ends, and when a sink is taken away.
func TestLastLines(t *testing.T) {
	dir := t.TempDir()
	a, b := logsink.Sink{File: filepath.Join(dir, "a.log")}, logsink.Sink{File: filepath.Join(dir, "b.log")}
	t.Run("end", func(t *testing.T) {
		r, c := serving(t, Options{Directories: []string{dir}})
		set(r, a, b)
		send(t, c, batch(a.Name(), "one"))
		send(t, c, batch(b.Name(), "one"))
		set(r, b)
		send(t, c, batch(a.Name(), "late"))
	})
	if content(a.File) != "one\n" || content(b.File) != "one\n" {
		t.Errorf("files are %q, %q", content(a.File), content(b.File))
	}
}

// TestSinkThatEnds writes its queue, whichever it hears of first.
func TestSinkThatEnds(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		out, err := newFile("a.log", &Options{Directories: []string{dir}, MaxSize: 1 << 20, Keep: 1})
		if err != nil {
			t.Fatal(err)
		}
		s := newSink(logsink.Sink{File: "a.log"}, out, &Options{Log: slog.New(slog.DiscardHandler), Changed: func() {}})
		s.put([]byte("line\n"))
		s.end()
		s.run()
		if got := content(filepath.Join(dir, "a.log")); got != "line\n" {
			t.Fatalf("it wrote %q", got)
		}
	}
}

// TestLongValuesLeaveNothingOut: however long the values of a caller are, and whatever they consist
// of, each member of an object is there, and the line is bounded.
func TestLongValuesLeaveNothingOut(t *testing.T) {
	const many = 64
	for name, text := range map[string]string{"long": "x", "not UTF-8": "\xff", "control characters": "\x7f", "quotes": `"`} {
		var members []*commonv1.KeyValue
		for i := range many {
			members = append(members, &commonv1.KeyValue{Key: fmt.Sprintf("%0256d", i), Value: value(strings.Repeat(text, maxPart))})
		}
		members = append(members, &commonv1.KeyValue{Key: "last", Value: value("own")})
		got := line(&commonv1.AnyValue{Value: &commonv1.AnyValue_KvlistValue{KvlistValue: &commonv1.KeyValueList{Values: members}}}, "")
		var read map[string]string
		if err := json.Unmarshal(got, &read); err != nil || len(read) != len(members) || read["last"] != "own" || len(got) > maxLine {
			t.Errorf("%s: %d members in %d bytes, %v", name, len(read), len(got), err)
		}
	}
	if got := within(strings.Repeat("\xff", maxPart), maxPart); len(got) != maxPart/6+len(cutMark) {
		t.Errorf("%d bytes are shown of what is not UTF-8", len(got))
	}
}

// TestLine: a value stays within its line, and the address of the proxy is where its sign is.
func TestLine(t *testing.T) {
	sign := func(how string) *commonv1.AnyValue { return values(value(how)) }
	for name, c := range map[string]struct {
		body          *commonv1.AnyValue
		address, want string
	}{
		"text":       {value("a \\ ü"), "", "a \\ ü"},
		"line ends":  {value("a\r\nb\tc\x00\x7f\u0085\u2028\u2029"), "", `a\r\nb\tc\u0000\u007f\u0085\u2028\u2029`},
		"not UTF-8":  {value("a\xffb"), "", `a\xffb`},
		"address":    {values(value("from "), sign(logsink.AddressAlone), value("!")), "192.0.2.1", "from 192.0.2.1!"},
		"with port":  {values(sign(logsink.AddressWithPort)), "2001:db8::1", "[2001:db8::1]:0"},
		"no address": {values(value("<"), sign(logsink.AddressAlone), value(">")), "", "<->"},
		"nothing":    {nil, "", ""},
	} {
		if got := string(line(c.body, c.address)); got != c.want+"\n" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	object := &commonv1.AnyValue{Value: &commonv1.AnyValue_KvlistValue{KvlistValue: &commonv1.KeyValueList{Values: []*commonv1.KeyValue{
		{Key: "b", Value: value("x\n\"<\u2028\u0085")}, {Key: "a", Value: values(value("at "), sign(logsink.AddressAlone))}, {Key: "long", Value: value(strings.Repeat("x", maxLine))}, {Key: "last", Value: value("z")},
	}}}}
	cut := strings.Repeat("x", maxPart) + cutMark
	if got := string(line(object, "192.0.2.1")); got != `{"b":"x\n\"<\u2028\u0085","a":"at 192.0.2.1","long":"`+cut+`","last":"z"}`+"\n" {
		t.Errorf("an object has %d bytes", len(got))
	}
	if got := line(value(strings.Repeat("ü", maxLine)), ""); len(got) > maxLine+1 || !strings.HasSuffix(string(got), cutMark+"\n") {
		t.Errorf("a long line has %d bytes", len(got))
	}
}
