// Package config is klink's configuration: one strict struct, read from a YAML file, the environment and flags.
//
// Every key is a field of [Config] with its documentation and default beside it; files, flags (--fe.listen), variables (KLINK_FE_LISTEN),
// the commented default file and the print of what is in force are all made from that one table ([Keys]).
//
// Precedence: flag, environment, file, default. A key that is not in the table is an error that names its line and the key
// that was probably meant. Durations read like 30s, sizes like 64KiB. Lists and records may be given in a flag or variable as YAML.
// Secrets can be read from a file named by the key with _file behind it, so that they need not stand in the configuration.
package config
