package accesslogs

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	recordv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// TestTextsOfStrangers: a line with bytes that are not UTF-8 is readable, and the lines beside it are
// as they were. What is no message is refused.
func TestTextsOfStrangers(t *testing.T) {
	record := func(text string) *recordv1.LogRecord {
		return &recordv1.LogRecord{TimeUnixNano: 7, Body: &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: text}}}
	}
	call := &logsv1.ExportLogsServiceRequest{ResourceLogs: []*recordv1.ResourceLogs{{ScopeLogs: []*recordv1.ScopeLogs{{
		LogRecords: []*recordv1.LogRecord{record("before ü"), record("at @@ end"), record("after")},
	}}}}}
	raw, err := proto.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte("@@"), []byte("\xff\xc3"), 1)
	got := new(logsv1.ExportLogsServiceRequest)
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, got); err != nil {
		t.Fatal(err)
	}
	call.ResourceLogs[0].ScopeLogs[0].LogRecords[1] = record(`at \xff\xc3 end`)
	if !proto.Equal(call, got) {
		t.Errorf("it is read as %v", got)
	}
	for _, broken := range [][]byte{{0xff}, {0x0a, 0x05, 0x01}, bytes.Repeat([]byte{0x0a}, 7)} {
		if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(broken)}, got); err == nil {
			t.Errorf("%x is read as %v", broken, got)
		}
	}
}

// TestLocksOfOthers: somebody who holds a lock on the directory does not keep a file from being put
// aside unseen: the file grows to twice its size, and the sink says why.
func TestLocksOfOthers(t *testing.T) {
	dir := t.TempDir()
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	l, err := newFile(filepath.Join(dir, "a.log"), &Options{Directories: []string{dir}, MaxSize: 100, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	written := 0
	for err == nil && written < 1000 {
		var n int
		n, err = l.write(t.Context(), append(bytes.Repeat([]byte("x"), 49), '\n'))
		written += n
	}
	if err == nil || written > 300 || l.standing() == nil {
		t.Errorf("%d bytes were written, then: %v", written, err)
	}
}

// FuzzCodec: no bytes of a call make the codec panic.
func FuzzCodec(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x12, 0x00})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_ = newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, new(logsv1.ExportLogsServiceRequest))
	})
}
