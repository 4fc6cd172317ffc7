package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
)

// rolePrimary is what INFO calls a primary.
const rolePrimary = "master"

var errNotPrimary = errors.New("redis is not a primary")

// Server is what a server says about itself. A field is empty if the server does not tell
// it, because the user may not ask or a proxy is in between.
type Server struct {
	// RunID changes with each start of the server.
	RunID string
	// ReplID names the history of the server's data. A replica that becomes a primary begins
	// a new history.
	ReplID string
	// Role is master or slave.
	Role string
	// Eviction says what the server does when its memory is full, such as noeviction.
	Eviction string
	// Database is the number of the database in use.
	Database int
	// Ahead is the least amount by which the server's clock is ahead of this machine's. It
	// is negative if the server is behind, and 0 if the clocks may agree or the server does
	// not tell.
	Ahead time.Duration
	// Time is the server's clock when it was asked, or zero if the server does not tell.
	Time time.Time
}

// Identity names the server together with the data that it holds. It changes when the server
// restarts, and when it has followed another server, whose data it then holds. Each database
// has its own identity. The result is empty if the server does not tell.
func (s Server) Identity() string {
	id := s.RunID
	if id != "" && s.ReplID != "" {
		id += "/" + s.ReplID
	}
	if id != "" && s.Database != 0 {
		id += "#" + strconv.Itoa(s.Database)
	}
	return id
}

// Identify asks every server that the client writes to. This is one server, or all primaries
// of a cluster that hold slots, as the cluster sees itself now. The servers of a cluster are
// in the order of their run ids.
func Identify(ctx context.Context, c redis.UniversalClient) ([]Server, error) {
	database := 0
	if own, ok := c.(*client); ok {
		c, database = own.UniversalClient, own.database
	}
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		s, err := ask(ctx, c.Pipeline(), database)
		if err != nil {
			return nil, err
		}
		return []Server{s}, nil
	}
	var (
		mu  sync.Mutex
		all []Server
	)
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		s, err := ask(ctx, c.Pipeline(), 0)
		mu.Lock()
		all = append(all, s)
		mu.Unlock()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("identify the primaries of redis: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("the redis cluster has no primaries")
	}
	slices.SortFunc(all, func(a, b Server) int { return cmp.Compare(a.RunID, b.RunID) })
	return all, nil
}

// ask sends one question for each section, because older servers do not accept lists of
// sections and some know only a few of them.
func ask(ctx context.Context, pipe redis.Pipeliner, database int) (Server, error) {
	sections := []*redis.StringCmd{pipe.Info(ctx, "server"), pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory")}
	before := time.Now()
	_, _ = pipe.Exec(ctx) // each answer has its own error, see stamp
	after := time.Now()
	s := Server{Database: database}
	if err := s.learn(sections); err != nil {
		return Server{}, err
	}
	if !s.Time.IsZero() {
		s.Ahead = contract.Ahead(s.Time, before, after, 0)
	}
	return s, nil
}

// learn reads the answers to INFO.
func (s *Server) learn(sections []*redis.StringCmd) error {
	for _, cmd := range sections {
		text, err := cmd.Result()
		if refused(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("identify redis: %w", err)
		}
		s.parse(text)
	}
	return nil
}

// refused reports whether an answer says that INFO is forbidden or unknown. Other codes
// describe a temporary state (BUSY, LOADING). A server in such a state must not count as one
// that never tells who it is, because such a server is not pinned.
func refused(err error) bool {
	var said redis.Error
	if !errors.As(err, &said) || errors.Is(err, errNotSent) {
		return false
	}
	text := said.Error()
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "NOPERM":
		return true
	case "ERR":
		return !strings.HasPrefix(text, "ERR max number of clients")
	default: // proxies answer without a code
		return code != strings.ToUpper(code)
	}
}

// parse reads the known lines, of the form name:value, of a section.
func (s *Server) parse(text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "run_id":
			s.RunID = value
		case "master_replid":
			s.ReplID = value
		case "role":
			s.Role = value
		case "maxmemory_policy":
			s.Eviction = value
		case "server_time_usec":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				s.Time = time.UnixMicro(n)
			}
		}
	}
}
