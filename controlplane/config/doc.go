// Package config is the configuration of the program: one table of settings
// with default, meaning and secrecy, read from defaults, a YAML file, the
// environment and flags, each overriding the one before. Every value remembers
// where it came from.
package config
