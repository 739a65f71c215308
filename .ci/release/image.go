package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The media types and the file of an OCI image layout that are used.
const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	layoutFile   = `{"imageLayoutVersion":"1.0.0"}`
)

type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	Schema    int          `json:"schemaVersion"`
	Type      string       `json:"mediaType"`
	Config    *descriptor  `json:"config,omitempty"`
	Layers    []descriptor `json:"layers,omitempty"`
	Manifests []descriptor `json:"manifests,omitempty"`
}

type imageConfig struct {
	Created      time.Time       `json:"created"`
	Architecture string          `json:"architecture"`
	System       string          `json:"os"`
	Config       containerConfig `json:"config"`
	Root         struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// containerConfig is the part of an image that the instructions of a Dockerfile set.
type containerConfig struct {
	User        string              `json:"User,omitempty"`
	Ports       map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env         []string            `json:"Env,omitempty"`
	Entrypoint  []string            `json:"Entrypoint,omitempty"`
	Cmd         []string            `json:"Cmd,omitempty"`
	Volumes     map[string]struct{} `json:"Volumes,omitempty"`
	Labels      map[string]string   `json:"Labels,omitempty"`
	StopSignal  string              `json:"StopSignal,omitempty"`
	Healthcheck *healthcheck        `json:"Healthcheck,omitempty"`
}

type healthcheck struct {
	Test        []string      `json:"Test"`
	Interval    time.Duration `json:"Interval,omitempty"`
	Timeout     time.Duration `json:"Timeout,omitempty"`
	StartPeriod time.Duration `json:"StartPeriod,omitempty"`
	Retries     int           `json:"Retries,omitempty"`
}

// images writes an OCI archive for each program, for all platforms of Linux, as docker/Dockerfile describes it.
func (r *release) images() error {
	text, err := os.ReadFile("docker/Dockerfile")
	if err != nil {
		return err
	}
	linux := slices.DeleteFunc(slices.Clone(r.platforms), func(p platform) bool { return p.system != "linux" })
	for _, program := range programs {
		l := &layout{blobs: make(map[string][]byte)}
		index := manifest{Schema: 2, Type: indexType}
		for _, p := range linux {
			instructions, err := stage(string(text), program)
			if err != nil {
				return err
			}
			described, err := r.image(l, p, instructions)
			if err != nil {
				return err
			}
			index.Manifests = append(index.Manifests, described)
		}
		top := l.addJSON(indexType, index)
		top.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
		archive, err := r.tar(l.entries(manifest{Schema: 2, Type: indexType, Manifests: []descriptor{top}}))
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.named(program, "oci.tar"), archive, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// layout collects the blobs of an OCI image layout.
type layout struct{ blobs map[string][]byte }

func (l *layout) add(kind string, content []byte) descriptor {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	l.blobs[digest] = content
	return descriptor{Type: kind, Digest: digest, Size: len(content)}
}

func (l *layout) addJSON(kind string, value any) descriptor { return l.add(kind, jsonOf(value)) }

func jsonOf(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // the types here have nothing that JSON lacks
	}
	return text
}

func (l *layout) entries(index manifest) []entry {
	entries := []entry{{name: "oci-layout", mode: 0o644, content: []byte(layoutFile)},
		{name: "index.json", mode: 0o644, content: jsonOf(index)}}
	for digest, content := range l.blobs {
		name := "blobs/" + strings.Replace(digest, ":", "/", 1)
		entries = append(entries, entry{name: name, mode: 0o644, content: content})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries
}

// image adds the image that instructions make on a platform.
func (r *release) image(l *layout, p platform, instructions []instruction) (descriptor, error) {
	c := imageConfig{Created: r.time, Architecture: p.machine, System: p.system}
	c.Root.Type = "layers"
	m := manifest{Schema: 2, Type: manifestType}
	for _, i := range instructions {
		if i.name != "COPY" {
			if err := c.Config.apply(i, r.version); err != nil {
				return descriptor{}, fmt.Errorf("docker/Dockerfile: %s %s: %w", i.name, i.text, err)
			}
			continue
		}
		entries, err := r.copied(p, i)
		if err != nil {
			return descriptor{}, err
		}
		plain, err := r.tar(entries)
		if err != nil {
			return descriptor{}, err
		}
		packed, err := compressed(plain)
		if err != nil {
			return descriptor{}, err
		}
		c.Root.DiffIDs = append(c.Root.DiffIDs, fmt.Sprintf("sha256:%x", sha256.Sum256(plain)))
		m.Layers = append(m.Layers, l.add(layerType, packed))
	}
	described := l.addJSON(configType, c)
	m.Config = &described
	made := l.addJSON(manifestType, m)
	made.Platform = map[string]string{"os": p.system, "architecture": p.machine}
	return made, nil
}

// copied returns the layer of a COPY: the licences, a program, or the empty folder that is called data in the context.
func (r *release) copied(p platform, i instruction) ([]entry, error) {
	words, owner := strings.Fields(i.text), 0
	if number, is := strings.CutPrefix(words[0], "--chown="); is {
		number, _, _ = strings.Cut(number, ":")
		var err error
		if owner, err = strconv.Atoi(number); err != nil {
			return nil, err
		}
		words = words[1:]
	}
	to := strings.TrimPrefix(words[len(words)-1], "/")
	switch sources := words[:len(words)-1]; {
	case slices.Equal(sources, licences):
		texts, err := entriesOf(to, 0o644, licences...)
		return append([]entry{{name: to, mode: 0o755}}, texts...), err
	case len(sources) == 1 && sources[0] == "data":
		return []entry{{name: to + "/", mode: 0o700, owner: owner}}, nil
	case len(sources) == 1 && slices.Contains(programs, sources[0]):
		return entriesOf("", 0o755, r.binary(p, sources[0]))
	}
	return nil, fmt.Errorf("docker/Dockerfile: COPY %s: no such thing is released", i.text)
}

// instruction is one of a Dockerfile.
type instruction struct{ name, text string }

// stage returns the instructions of a stage, after those of the stage that it starts from.
func stage(dockerfile, wanted string) ([]instruction, error) {
	stages := map[string][]instruction{"scratch": nil}
	current := ""
	joined := strings.ReplaceAll(dockerfile, "\\\n", " ")
	for line := range strings.Lines(joined) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		text = strings.TrimSpace(text)
		switch {
		case name == "" || strings.HasPrefix(name, "#") || name == "ARG":
		case name == "FROM":
			var base string
			if _, err := fmt.Sscanf(text, "%s AS %s", &base, &current); err != nil {
				return nil, fmt.Errorf("docker/Dockerfile: FROM %s: %w", text, err)
			}
			stages[current] = slices.Clone(stages[base])
		default:
			stages[current] = append(stages[current], instruction{name, text})
		}
	}
	if stages[wanted] == nil {
		return nil, fmt.Errorf("docker/Dockerfile has no stage %s", wanted)
	}
	return stages[wanted], nil
}

// apply sets what an instruction sets. An unknown one is an error.
func (c *containerConfig) apply(i instruction, version string) error {
	switch i.name {
	case "USER":
		c.User = i.text
	case "ENV":
		c.Env = append(c.Env, strings.Fields(i.text)...)
	case "STOPSIGNAL":
		c.StopSignal = i.text
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(i.text), &c.Entrypoint)
	case "CMD":
		c.Cmd = nil
		return json.Unmarshal([]byte(i.text), &c.Cmd)
	case "VOLUME":
		var volumes []string
		err := json.Unmarshal([]byte(i.text), &volumes)
		c.Volumes = setOf(volumes)
		return err
	case "EXPOSE":
		var ports []string
		for port := range strings.FieldsSeq(i.text) {
			ports = append(ports, port+"/tcp")
		}
		c.Ports = setOf(ports)
	case "HEALTHCHECK":
		return c.applyHealthcheck(i.text)
	case "LABEL":
		return c.applyLabels(strings.ReplaceAll(i.text, "$VERSION", version))
	default:
		return fmt.Errorf("this program does not know it")
	}
	return nil
}

func setOf(names []string) map[string]struct{} {
	set := make(map[string]struct{})
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

func (c *containerConfig) applyHealthcheck(text string) error {
	options, test, _ := strings.Cut(text, " CMD ")
	h := &healthcheck{}
	if err := json.Unmarshal([]byte(test), &h.Test); err != nil {
		return err
	}
	h.Test = append([]string{"CMD"}, h.Test...)
	times := map[string]*time.Duration{"--interval": &h.Interval, "--timeout": &h.Timeout,
		"--start-period": &h.StartPeriod}
	for option := range strings.FieldsSeq(options) {
		name, value, _ := strings.Cut(option, "=")
		var err error
		if name == "--retries" {
			h.Retries, err = strconv.Atoi(value)
		} else if to := times[name]; to != nil {
			*to, err = time.ParseDuration(value)
		} else {
			err = fmt.Errorf("unknown option %s", name)
		}
		if err != nil {
			return err
		}
	}
	c.Healthcheck = h
	return nil
}

// applyLabels reads NAME="VALUE" pairs.
func (c *containerConfig) applyLabels(text string) error {
	if c.Labels == nil {
		c.Labels = make(map[string]string)
	}
	for rest := bytes.TrimSpace([]byte(text)); len(rest) > 0; rest = bytes.TrimSpace(rest) {
		name, after, found := bytes.Cut(rest, []byte(`="`))
		value, after, ends := bytes.Cut(after, []byte(`"`))
		if !found || !ends {
			return fmt.Errorf("not NAME=%q", "VALUE")
		}
		c.Labels[string(name)], rest = string(value), after
	}
	return nil
}
