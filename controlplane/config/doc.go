// Package config is the configuration of the program: one table of settings with default,
// meaning and secrecy. Settings are read from defaults, a YAML file, the environment and
// flags, each of which overrides the one before. Every value remembers its source.
package config
