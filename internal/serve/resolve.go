package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// SourcesText explains to users where settings come from.
const SourcesText = `Every flag can also be set by an environment variable (--data-dir is
COORDD_DATA_DIR; an empty one counts as not set) and by a line of the YAML file that
--config or COORDD_CONFIG names (data-dir: DIR). A flag wins over the environment,
which wins over the file.`

// Given is the value of a setting with its source.
type Given struct {
	Value  string
	Origin string    // for messages: the flag, the variable, or the file, line and key
	Code   exit.Code // of the process if the value is not allowed
	// localYDB is set if the value stands for what the local-ydb image would do.
	localYDB bool
}

// refuse is the error for a value that is not allowed; reason has the allowed ones.
func (g Given) refuse(reason error) error {
	return exit.With(g.Code, fmt.Errorf("%s: value %q is not allowed: %w", g.Origin, g.Value, reason))
}

// AddFlags declares a flag for each option and --config.
func AddFlags(flags *pflag.FlagSet, options []Option) {
	flags.SortFlags = false
	for _, o := range options {
		flag := flags.VarPF(&cmdline.RawFlag{Text: o.Fallback, Placeholder: o.placeholder()}, o.Name, "", o.Usage)
		if o.isSwitch() {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Var(&cmdline.RawFlag{Placeholder: "FILE"}, ConfigName,
		"YAML file with further settings; its keys are the names of the flags")
}

// Resolve finds the value of each option: the flag, else the environment
// variable, else the config file, else the default. Errors carry exit.Usage for a
// flag and exit.Config for all the rest. The origins are by option name.
func Resolve(
	options []Option, flags *pflag.FlagSet, env cmdline.Environment, uid int,
) (Settings, map[string]Given, error) {
	s, values, err := ResolveEach(options, flags, env)
	if err == nil {
		err = settleDataDir(&s, values, env, uid)
	}
	if err != nil {
		return Settings{}, nil, err
	}
	return s, values, nil
}

// ResolveEach finds the values one by one, and leaves to Resolve what depends on several.
func ResolveEach(options []Option, flags *pflag.FlagSet, env cmdline.Environment) (Settings, map[string]Given, error) {
	file, err := configFileValues(flags, env)
	if err != nil {
		return Settings{}, nil, err
	}
	var s Settings
	standIn := localYDBValues(flags, env, file)
	values := map[string]Given{}
	for _, o := range options {
		value, found := lookUp(o.Name, flags, env)
		if !found {
			value, found = file[o.Name]
		}
		if !found {
			value, found = standIn[o.Name]
		}
		if !found {
			value = Given{Value: o.Fallback, Origin: "default", Code: exit.Config}
		}
		values[o.Name] = value
		if !found && o.Fallback == "" {
			continue
		}
		if err := o.Set(&s, value.Value); err != nil {
			return Settings{}, nil, value.refuse(err)
		}
	}
	return s, values, nil
}

// configFileValues reads the config file, where one is named.
func configFileValues(flags *pflag.FlagSet, env cmdline.Environment) (map[string]Given, error) {
	path, found := lookUp(ConfigName, flags, env)
	if !found {
		return nil, nil
	}
	if path.Value == "" {
		return nil, path.refuse(errors.New("want the path of a YAML file"))
	}
	values, err := readConfigFile(path.Value)
	if err != nil {
		return nil, exit.With(exit.Config, fmt.Errorf("%s: %w", path.Origin, err))
	}
	return values, nil
}

// lookUp finds a value among the flags and the environment variables.
func lookUp(name string, flags *pflag.FlagSet, env cmdline.Environment) (Given, bool) {
	if flag := flags.Lookup(name); flag != nil && flag.Changed {
		return Given{Value: flag.Value.String(), Origin: "flag --" + name, Code: exit.Usage}, true
	}
	if value := env.Value(cmdline.Variable(name)); value != "" {
		return Given{Value: value, Origin: "variable " + cmdline.Variable(name), Code: exit.Config}, true
	}
	return Given{}, false
}

// misspeltVariables are the variables that look like one of ours with a slip in
// the name. Others that start with the prefix are left alone: container platforms
// make some of their own from a service's name.
func misspeltVariables(env cmdline.Environment, options []Option) []string {
	known := []string{cmdline.Variable(ConfigName)}
	for _, o := range options {
		known = append(known, cmdline.Variable(o.Name))
	}
	var warnings []string
	for _, line := range env {
		name, _, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, cmdline.VariablePrefix) || slices.Contains(known, name) {
			continue
		}
		if near := cmdline.Closest(name, known); near != "" {
			warnings = append(warnings,
				fmt.Sprintf("variable %s is not known and has no effect; did you mean %s?", name, near))
		}
	}
	return warnings
}
