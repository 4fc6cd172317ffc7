package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/xds/durable"
	"github.com/meshgate/meshgate/xds/resource"
)

// cacheMagic begins every cache file. Its digit is the version of the layout.
const cacheMagic = "meshgate-xds-cache-2\n"

const (
	// maxCacheBytes is the maximum number of bytes that are read back.
	maxCacheBytes = 512 << 20
	// cacheSlack is how many bytes a file may contain beyond twice what it needs, so that
	// small files are not rewritten all the time.
	cacheSlack = 1 << 20
	// recordHead is the length of a record's head: the length of the body and the sum.
	recordHead = 4 + sha256.Size
)

// errForeign says that the cache belongs to another node.
var errForeign = errors.New("the cache belongs to another node")

// cache is a file with everything that Envoy has confirmed: the magic, a record with the name
// of the node, and one record per confirmed response, in their order. So a change costs as
// much as its own content, not as much as everything that the proxy holds. A file that has
// grown beyond twice what it needs is rewritten.
//
// The sum of a record covers the sum before it, so that no record can be missing or come from
// elsewhere. Reading stops at the first record with a wrong sum; the file then counts as what
// it was before that record. A power failure may lose any part of what was being added, even
// in several records. A proxy that starts while the control plane is away must not lose for
// that reason what was confirmed earlier.
type cache struct {
	path, node string
	// size is the length of the file, and sum the sum of its last record. A file of more than
	// limit bytes is rewritten.
	size, limit int64
	sum         [sha256.Size]byte
	// whole says that the file is known to exist and to end with a record.
	whole bool
}

// record returns the form in which the file stores one response. It leaves out what no disk may
// hold.
func record(typ resource.TypeURL, put []*resource.Resource, dropped []string) *discovery.DeltaDiscoveryResponse {
	m := &discovery.DeltaDiscoveryResponse{TypeUrl: string(typ), RemovedResources: dropped}
	for _, r := range put {
		if isFleeting(r) {
			continue
		}
		m.Resources = append(m.Resources, &discovery.Resource{Name: r.Name, Version: r.Version, Resource: &anypb.Any{Value: r.Body}})
	}
	return m
}

// load reads the file. It returns os.ErrNotExist if there is none. After success, the next
// changes are added to this file.
func (c *cache) load() (table, error) {
	file, err := os.Open(c.path)
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxCacheBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the cache: %w", err)
	case len(raw) > maxCacheBytes:
		return nil, fmt.Errorf("the cache has more than %d bytes", maxCacheBytes)
	}
	return c.parse(raw)
}

// parse checks everything before it accepts anything.
func (c *cache) parse(raw []byte) (table, error) {
	if len(raw) < len(cacheMagic) || string(raw[:len(cacheMagic)]) != cacheMagic {
		return nil, errors.New("the file is not a cache")
	}
	size, sum := int64(len(cacheMagic)), sha256.Sum256([]byte(cacheMagic))
	named, out := false, table{}
	for rest := raw[size:]; len(rest) > 0; rest = raw[size:] {
		body, next, ok := split(rest, sum)
		if !ok {
			break // a crash has torn it
		}
		size, sum = size+recordHead+int64(len(body)), next
		var err error
		switch {
		case named:
			err = out.replay(body)
		case string(body) != c.node:
			err = errForeign
		}
		if err != nil {
			return nil, err
		}
		named = true
	}
	if !named {
		return nil, errors.New("the cache is damaged")
	}
	c.size, c.sum, c.whole = size, sum, size == int64(len(raw))
	c.limit = cacheLimit(out.bytes())
	return out, nil
}

// split cuts off the first record and returns its body and sum. ok is false if the record is
// not whole.
func split(raw []byte, before [sha256.Size]byte) (body []byte, sum [sha256.Size]byte, ok bool) {
	if len(raw) < recordHead {
		return nil, sum, false
	}
	n := int64(binary.BigEndian.Uint32(raw))
	if n > int64(len(raw)-recordHead) {
		return nil, sum, false
	}
	body = raw[recordHead : recordHead+n]
	sum = chain(before, body)
	return body, sum, string(sum[:]) == string(raw[4:recordHead])
}

// chain returns the sum of a record, given the sum of the record before it.
func chain(before [sha256.Size]byte, body []byte) [sha256.Size]byte {
	return sha256.Sum256(slices.Concat(before[:], body))
}

// replay applies a record.
func (t table) replay(body []byte) error {
	var m discovery.DeltaDiscoveryResponse
	if err := proto.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("decode the cache: %w", err)
	}
	typ := resource.TypeURL(m.GetTypeUrl())
	if !slices.Contains(resource.Types[:], typ) {
		return errors.New("the cache holds an unknown type")
	}
	for _, x := range m.GetResources() {
		t.put(resource.Received(typ, x.GetName(), x.GetVersion(), x.GetResource().GetValue()))
	}
	for _, name := range m.GetRemovedResources() {
		t.drop(typ, name)
	}
	return nil
}

// cacheLimit returns how large a file may become that needs so many bytes.
func cacheLimit(needed int64) int64 { return 2*needed + cacheSlack }

// save adds the changes to the file or, if necessary, rewrites it with all of good. After an
// error the next call rewrites the file.
func (c *cache) save(good table, changes []*discovery.DeltaDiscoveryResponse) error {
	if c.whole && c.size <= c.limit {
		more, sum, err := encode(nil, c.sum, changes)
		if err != nil {
			return err
		}
		if c.append(more) == nil {
			c.size, c.sum = c.size+int64(len(more)), sum
			return nil
		}
	}
	return c.rewrite(good)
}

// append adds records to the file and syncs it. It fails if the file does not have the length
// that this process expects.
func (c *cache) append(more []byte) (err error) {
	c.whole = false
	file, err := os.OpenFile(c.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("open the cache: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()); c.whole = err == nil }()
	switch info, err := file.Stat(); {
	case err != nil:
		return fmt.Errorf("look at the cache: %w", err)
	case info.Size() != c.size:
		return errors.New("the cache was changed by others")
	}
	if _, err = file.Write(more); err != nil {
		return fmt.Errorf("write the cache: %w", err)
	}
	return file.Sync()
}

// rewrite writes a file next to the old one, syncs it and renames it, so that a crash leaves
// the old one. The file contains the proxy's own private key and is therefore readable by its owner only.
func (c *cache) rewrite(good table) (err error) {
	c.whole = false
	var all []*discovery.DeltaDiscoveryResponse
	for _, url := range resource.Types {
		for part := range slices.Chunk(good.of(url), 1000) {
			all = append(all, record(url, part, nil))
		}
	}
	first := sha256.Sum256([]byte(cacheMagic))
	body, sum := put([]byte(cacheMagic), first, []byte(c.node))
	if body, sum, err = encode(body, sum, all); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(c.path), ".cache-*") // 0600
	if err != nil {
		return fmt.Errorf("create the cache: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(body); err != nil {
		return fmt.Errorf("write the cache: %w", err)
	}
	if err = tmp.Sync(); err != nil {
		return fmt.Errorf("sync the cache: %w", err)
	}
	if err = tmp.Close(); err != nil {
		return fmt.Errorf("close the cache: %w", err)
	}
	if err = os.Rename(tmp.Name(), c.path); err != nil {
		return fmt.Errorf("put the cache in place: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(c.path)); err != nil {
		return fmt.Errorf("sync the directory of the cache: %w", err)
	}
	c.size, c.sum, c.whole = int64(len(body)), sum, true
	c.limit = cacheLimit(c.size)
	return nil
}

// encode adds records to raw and returns the sum of the last one.
func encode(raw []byte, sum [sha256.Size]byte, records []*discovery.DeltaDiscoveryResponse) ([]byte, [sha256.Size]byte, error) {
	for _, m := range records {
		body, err := proto.Marshal(m)
		if err != nil {
			return nil, sum, fmt.Errorf("encode the cache: %w", err)
		}
		raw, sum = put(raw, sum, body)
	}
	return raw, sum, nil
}

// put adds one record to raw and returns its sum.
func put(raw []byte, before [sha256.Size]byte, body []byte) ([]byte, [sha256.Size]byte) {
	sum := chain(before, body)
	raw = binary.BigEndian.AppendUint32(raw, uint32(len(body))) //nolint:gosec // a response has at most server.MaxResponse
	return append(append(raw, sum[:]...), body...), sum
}
