package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// config is the configuration file. It holds a provision key, by which the
// gateway believes who a user is, and passwords: give it mode 0600.
type config struct {
	// Listen is the address to serve at. Without a certificate it must be on
	// loopback.
	Listen   string `json:"listen"`
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	// Gateway is the base URL of the route whose plugin issues the tokens, with
	// https; CAFile holds the authority that its certificate comes from, unless
	// the system knows it.
	Gateway string `json:"gateway"`
	CAFile  string `json:"ca_file"`
	// Admin is the base URL of the gateway's administration API.
	Admin string `json:"admin"`
	// ProvisionKey is that of the plugin.
	ProvisionKey string `json:"provision_key"`
	// PasswordFlow switches the legacy endpoint POST /token on.
	PasswordFlow bool   `json:"password_flow"`
	Users        []user `json:"users"`
}

// user is somebody who may log in.
type user struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	// ID is what the gateway and the services behind it know the user by. It
	// never changes, even if the name does.
	ID string `json:"id"`
}

func (c *config) secure() bool { return c.CertFile != "" }

func readConfig(file string) (*config, error) {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	c := &config{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// check refuses what would not be safe.
func (c *config) check() error {
	gateway, err := url.Parse(c.Gateway)
	if err != nil || gateway.Scheme != "https" || gateway.Host == "" {
		return fmt.Errorf("gateway %q must be a URL with https: codes and tokens are issued over TLS only", c.Gateway)
	}
	admin, err := url.Parse(c.Admin)
	if err != nil || admin.Host == "" {
		return fmt.Errorf("admin %q must be a URL", c.Admin)
	}
	if admin.Scheme != "https" && !loopback(admin.Host) {
		return fmt.Errorf("admin %q must have https, or be on loopback", c.Admin)
	}
	switch {
	case c.ProvisionKey == "":
		return errors.New("provision_key is missing")
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("cert_file and key_file go together")
	case !c.secure() && !loopback(c.Listen):
		return fmt.Errorf("listen %q needs cert_file and key_file: passwords pass in clear only on loopback", c.Listen)
	}
	for i, u := range c.Users {
		if u.Name == "" || u.Password == "" || u.ID == "" {
			return fmt.Errorf("users[%d] needs name, password and id", i)
		}
	}
	return nil
}

// loopback reports whether an address with or without a port stays on this machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
