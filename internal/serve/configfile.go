package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// ConfigBytesMax bounds the config file. Ours has a handful of short lines, so
// anything larger is some other file.
const ConfigBytesMax = 64 << 10

// readConfigFile reads a YAML file whose keys are the names of serve's flags and
// returns the values by key. An empty file is fine. Any error names the file and,
// where there is one, the line.
func readConfigFile(path string) (map[string]Given, error) {
	content, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	mapping, err := parseMapping(content)
	if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	if mapping == nil {
		return nil, nil
	}
	values := map[string]Given{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		origin := fmt.Sprintf("config file %s, line %d, key %s", path, key.Line, key.Value)
		if err := checkEntry(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", origin, err)
		}
		if _, repeated := values[key.Value]; repeated {
			return nil, fmt.Errorf("%s: given twice", origin)
		}
		values[key.Value] = Given{Value: value.Value, Origin: origin, Code: exit.Config}
	}
	return values, nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, ConfigBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	if len(content) > ConfigBytesMax {
		return nil, fmt.Errorf("config file %s: larger than %d bytes", path, ConfigBytesMax)
	}
	return content, nil
}

// parseMapping returns the one mapping of the file, nil for a file without
// content.
func parseMapping(content []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	var document, further yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, aboutTabs(content, err)
	}
	if err := decoder.Decode(&further); err == nil {
		return nil, fmt.Errorf("line %d: a second document; want one", further.Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want lines of the form key: value", root.Line)
	}
	return root, nil
}

// aboutTabs explains the error of a file in which a line begins with a tab, which looks like spaces in an
// editor.
func aboutTabs(content []byte, err error) error {
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		if strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
			return fmt.Errorf("line %d: begins with a tab; YAML wants spaces", number)
		}
	}
	return err
}

// checkEntry checks one line of the file as far as its form goes.
func checkEntry(key, value *yaml.Node) error {
	names := optionNames(Options)
	switch {
	case !slices.Contains(names, key.Value):
		if near := cmdline.Closest(strings.ReplaceAll(key.Value, "_", "-"), names); near != "" {
			return fmt.Errorf("unknown key; did you mean %s?", near)
		}
		return fmt.Errorf("unknown key; known are %s", strings.Join(names, ", "))
	case value.Kind != yaml.ScalarNode:
		return errors.New("want a single value")
	case value.ShortTag() == "!!null":
		return errors.New("has no value; leave the line out to get the default")
	}
	return nil
}

func optionNames(options []Option) []string {
	var names []string
	for _, o := range options {
		names = append(names, o.Name)
	}
	return names
}
