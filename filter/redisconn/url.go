package redisconn

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	serverPort   = "6379"
	sentinelPort = "26379"
	// maxAddresses bounds the number of servers or sentinels in a URL.
	maxAddresses = 64
)

// Errors about a URL do not quote it.
var (
	errScheme   = errors.New("redis url: the scheme is none of redis, rediss, unix, redis+sentinel and redis+cluster, or rediss with +")
	errBare     = errors.New("redis url: without a scheme it must be host:port; user and password need redis:// before them")
	errForm     = errors.New("redis url: not redis://[user:password@]host[:port][/database], with special characters escaped as in a URL")
	errAddress  = errors.New("redis url: not a list of host:port")
	errMaster   = errors.New("redis url: after the sentinels comes /master, and /master/database at most")
	errDatabase = errors.New("redis url: the database is not a number")
	errCluster  = errors.New("redis url: a cluster has no databases and no parameters")
	errQuery    = errors.New("redis url: sentinels have the parameters sentinel_username and sentinel_password only")
	errUser     = errors.New("redis url: user and password are not escaped as in a URL")
)

// address is what a URL names.
type address struct {
	network   string
	addresses []string
	tls       bool
	// serverName is the expected name in certificates; empty means the dialled host.
	serverName         string
	insecure           bool
	username, password string
	database           int
	// master is set for sentinels, with their credentials.
	master                             string
	sentinelUsername, sentinelPassword string
	cluster                            bool
	// options are the further options that the URL of a single server sets.
	options redis.Options
}

func parse(text string) (*address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		host, port, err := net.SplitHostPort(text)
		if err != nil || !goodAddress(host, port) {
			return nil, errBare
		}
		return &address{network: "tcp", addresses: []string{text}}, nil
	}
	base, kind, _ := strings.Cut(scheme, "+")
	secure := base == "rediss"
	if base != "redis" && !secure && scheme != "unix" {
		return nil, errScheme
	}
	switch kind {
	case "":
		return parseSingle(text)
	case "sentinel":
		return parseSentinels(rest, secure)
	case "cluster":
		return parseCluster(rest, secure)
	}
	return nil, errScheme
}

// parseSingle accepts the URLs that the library accepts.
func parseSingle(text string) (*address, error) {
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, errForm // the cause may quote the password
	}
	t := &address{
		network: o.Network, addresses: []string{o.Addr}, username: o.Username, password: o.Password, database: o.DB,
		options: *o,
	}
	if c := o.TLSConfig; c != nil {
		t.tls, t.serverName, t.insecure = true, c.ServerName, c.InsecureSkipVerify
	}
	return t, nil
}

func parseSentinels(rest string, secure bool) (*address, error) {
	t := &address{network: "tcp", tls: secure}
	path, query, err := t.parseAuthority(rest, sentinelPort)
	if err != nil {
		return nil, err
	}
	name, database, two := strings.Cut(path, "/")
	if t.master, err = url.PathUnescape(name); err != nil || t.master == "" {
		return nil, errMaster
	}
	if two {
		if t.database, err = strconv.Atoi(database); err != nil || t.database < 0 {
			return nil, errDatabase
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errQuery
	}
	t.sentinelUsername, t.sentinelPassword = values.Get("sentinel_username"), values.Get("sentinel_password")
	for name, v := range values {
		if (name != "sentinel_username" && name != "sentinel_password") || len(v) != 1 {
			return nil, errQuery
		}
	}
	return t, nil
}

func parseCluster(rest string, secure bool) (*address, error) {
	t := &address{network: "tcp", tls: secure, cluster: true}
	path, query, err := t.parseAuthority(rest, serverPort)
	if err != nil {
		return nil, err
	}
	if path != "" || query != "" {
		return nil, errCluster
	}
	return t, nil
}

// parseAuthority reads [user:password@]host[:port][,host[:port]…] and returns what comes
// after it. It exists because the standard library accepts only one host.
func (t *address) parseAuthority(rest, port string) (path, query string, err error) {
	rest, query, _ = strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		authority = authority[at+1:]
		if t.username, err = url.PathUnescape(user); err != nil {
			return "", "", errUser
		}
		if t.password, err = url.PathUnescape(password); err != nil {
			return "", "", errUser
		}
	}
	for address := range strings.SplitSeq(authority, ",") {
		host, p, err := net.SplitHostPort(address)
		if err != nil {
			host, p, err = net.SplitHostPort(address + ":" + port)
		}
		if err != nil || !goodAddress(host, p) || len(t.addresses) == maxAddresses {
			return "", "", errAddress
		}
		t.addresses = append(t.addresses, net.JoinHostPort(host, p))
	}
	return path, query, nil
}

func goodAddress(host, port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && host != "" && !strings.ContainsAny(host, "@/?# \t\r\n")
}
