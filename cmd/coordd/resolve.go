package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// environment is the process's environment as KEY=value lines.
type environment []string

// value is that of a variable. A variable that is set to nothing counts as not
// set, because compose files and unit files often pass it on that way.
func (e environment) value(name string) string {
	// as in the C library's view of a doubled name, the last one counts
	for _, line := range slices.Backward(e) {
		if rest, found := strings.CutPrefix(line, name+"="); found {
			return rest
		}
	}
	return ""
}

// given is a value and where it came from.
type given struct {
	value  string
	origin string   // for messages: the flag, the variable, or the file, line and key
	code   exitCode // of the process if the value is not allowed
	// localYDB is set if the value stands for what the local-ydb image would do.
	localYDB bool
}

// refuse is the error for a value that is not allowed; reason says what is.
func (g given) refuse(reason error) error {
	return withCode(g.code, fmt.Errorf("%s: value %q is not allowed: %w", g.origin, g.value, reason))
}

// rawFlag keeps a flag's text as it is; it is checked when all sources are known,
// so that every source gets the same checks and messages.
type rawFlag struct {
	text        string
	placeholder string
}

func (f *rawFlag) Set(text string) error { f.text = text; return nil }
func (f *rawFlag) String() string        { return f.text }
func (f *rawFlag) Type() string          { return f.placeholder }

// addFlags declares a flag for each option and --config.
func addFlags(flags *pflag.FlagSet, options []option) {
	flags.SortFlags = false
	for _, o := range options {
		flag := flags.VarPF(&rawFlag{text: o.fallback, placeholder: o.placeholder}, o.name, "", o.usage)
		if o.placeholder == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Var(&rawFlag{placeholder: "FILE"}, configName,
		"YAML file with further settings; its keys are the names of the flags")
}

// resolve finds the value of each option: the flag, else the environment
// variable, else the config file, else the default. Errors carry exitUsage for a
// flag and exitConfig for all the rest. The origins are by option name.
func resolve(options []option, flags *pflag.FlagSet, env environment, uid int) (settings, map[string]given, error) {
	s, values, err := resolveEach(options, flags, env)
	if err == nil {
		err = settleDataDir(&s, values, env, uid)
	}
	if err != nil {
		return settings{}, nil, err
	}
	return s, values, nil
}

// resolveEach finds the values one by one, and leaves to resolve what depends on several.
func resolveEach(options []option, flags *pflag.FlagSet, env environment) (settings, map[string]given, error) {
	file, err := configFileValues(flags, env)
	if err != nil {
		return settings{}, nil, err
	}
	var s settings
	standIn := localYDBValues(flags, env, file)
	values := map[string]given{}
	for _, o := range options {
		value, found := lookUp(o.name, flags, env)
		if !found {
			value, found = file[o.name]
		}
		if !found {
			value, found = standIn[o.name]
		}
		if !found {
			value = given{value: o.fallback, origin: "default", code: exitConfig}
		}
		values[o.name] = value
		if !found && o.fallback == "" {
			continue
		}
		if err := o.set(&s, value.value); err != nil {
			return settings{}, nil, value.refuse(err)
		}
	}
	return s, values, nil
}

// configFileValues reads the config file, where one is named.
func configFileValues(flags *pflag.FlagSet, env environment) (map[string]given, error) {
	path, found := lookUp(configName, flags, env)
	if !found {
		return nil, nil
	}
	if path.value == "" {
		return nil, path.refuse(errors.New("want the path of a YAML file"))
	}
	values, err := readConfigFile(path.value)
	if err != nil {
		return nil, withCode(exitConfig, fmt.Errorf("%s: %w", path.origin, err))
	}
	return values, nil
}

// lookUp finds a value among the flags and the environment variables.
func lookUp(name string, flags *pflag.FlagSet, env environment) (given, bool) {
	if flag := flags.Lookup(name); flag != nil && flag.Changed {
		return given{value: flag.Value.String(), origin: "flag --" + name, code: exitUsage}, true
	}
	if value := env.value(variable(name)); value != "" {
		return given{value: value, origin: "variable " + variable(name), code: exitConfig}, true
	}
	return given{}, false
}

// settleDataDir gives the data directory its default, or empties it for a server
// in memory. Asking for both on one command line is a contradiction; a directory
// from a wider source (a container's environment, say) is simply not used.
func settleDataDir(s *settings, values map[string]given, env environment, uid int) error {
	directory, memory := values[dataDirName], values[inMemoryName]
	if s.inMemory {
		if directory.code == exitUsage && memory.code == exitUsage {
			return usageError(
				"flag --%s: value %q is not allowed together with --%s, which keeps nothing on disk",
				dataDirName, directory.value, inMemoryName)
		}
		s.dataDir = ""
		return nil
	}
	if s.dataDir != "" {
		return nil
	}
	path, err := defaultDataDir(env, uid)
	if err != nil {
		return withCode(exitConfig, err)
	}
	s.dataDir = path
	return nil
}

// misspeltVariables are the variables that look like one of ours with a slip in
// the name. Others that start with the prefix are left alone: container platforms
// make some of their own from a service's name.
func misspeltVariables(env environment, options []option) []string {
	known := []string{variable(configName)}
	for _, o := range options {
		known = append(known, variable(o.name))
	}
	var warnings []string
	for _, line := range env {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) {
			continue
		}
		if near := closest(name, known); near != "" {
			warnings = append(warnings,
				fmt.Sprintf("variable %s is not known and has no effect; did you mean %s?", name, near))
		}
	}
	return warnings
}
