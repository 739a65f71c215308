package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Section numbers in this file refer to docs/dev/spec/ratelimiter.md.

// Answer is the result of a call about resources: the name of a YDB status, and the text of its issue.
type Answer struct{ Status, Text string }

// Settings are those of a resource, as they were set; 0 is not set (§3).
type Settings struct {
	Rate, Burst, Prefetch, Watermark float64
	More                             string // what nobody here knows
}

// Limiter is the tree of resources of a node, of which nothing is handed out.
type Limiter struct{ resources []limited }

type limited struct {
	path string
	set  Settings
}

var done = Answer{Status: "SUCCESS"}

func badRequest(text string) Answer { return Answer{"BAD_REQUEST", text} }

func (l *Limiter) at(path string) int {
	return slices.IndexFunc(l.resources, func(r limited) bool { return r.path == path })
}

// parentOf is the path without its last element, empty of a root.
func parentOf(path string) string {
	elements := strings.Split(path, "/")
	return strings.Join(elements[:len(elements)-1], "/")
}

// refusal is the rules for settings, in their order (§3).
func (s Settings) refusal(root bool) (Answer, bool) {
	bad := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 1) || math.IsInf(v, -1) }
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{bad(s.Rate), "MaxUnitsPerSecond must be finite."},
		{s.Rate < 0, "MaxUnitsPerSecond can't be less than 0."},
		{bad(s.Prefetch), "PrefetchCoefficient must be finite."},
		{bad(s.Watermark), "PrefetchWatermark must be finite."},
		{s.Watermark < 0, "PrefetchWatermark can't be less than 0."},
		{s.Watermark > 1, "PrefetchWatermark can't be greater than 1."},
		{root && s.Rate == 0, "No MaxUnitsPerSecond parameter in root resource."},
	} {
		if rule.broken {
			return badRequest(rule.text), true
		}
	}
	return Answer{}, false
}

func wrongSymbols(path string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:#"
	return strings.Trim(path, allowed) != "" ||
		strings.ContainsFunc(path, func(r rune) bool { return !strings.ContainsRune(allowed, r) })
}

// Create is §4: symbols, already there, empty path, parent, settings.
func (l *Limiter) Create(path string, set Settings) Answer {
	if wrongSymbols(path) {
		return badRequest("Invalid resource path.")
	}
	if i := l.at(path); i >= 0 {
		if had := l.resources[i].set; had.Rate == set.Rate && had.Burst == set.Burst &&
			had.Prefetch == set.Prefetch && had.Watermark == set.Watermark && had.More == set.More {
			return Answer{"ALREADY_EXISTS", "Resource already exists and has same settings."}
		}
		return badRequest("Resource already exists and has different settings.")
	}
	if path == "" {
		return badRequest("Empty resource path is specified.")
	}
	parent := parentOf(path)
	if parent != "" && l.at(parent) < 0 {
		return badRequest(fmt.Sprintf("Parent resource \"%s\" doesn't exist.", parent))
	}
	if refused, is := set.refusal(parent == ""); is {
		return refused
	}
	l.resources = append(l.resources, limited{path, set})
	return done
}

// Alter replaces all settings: empty path, symbols, missing, settings.
func (l *Limiter) Alter(path string, set Settings) Answer {
	switch i := l.at(path); {
	case path == "":
		return badRequest("You should specify resource path or resource id.")
	case wrongSymbols(path):
		return badRequest("Invalid resource path.")
	case i < 0:
		return Answer{"NOT_FOUND", "No resource found."}
	default:
		if refused, is := set.refusal(parentOf(path) == ""); is {
			return refused
		}
		l.resources[i].set = set
		return done
	}
}

// Drop refuses, in this order: an empty path, wrong symbols, what is not there, and what has children.
func (l *Limiter) Drop(path string) Answer {
	switch i := l.at(path); {
	case path == "":
		return badRequest("You should specify resource path or resource id.")
	case wrongSymbols(path):
		return badRequest("Invalid resource path.")
	case i < 0:
		return Answer{"NOT_FOUND", "Resource doesn't exist."}
	case slices.ContainsFunc(l.resources, func(r limited) bool { return parentOf(r.path) == path }):
		return badRequest(fmt.Sprintf("Resource \"%s\" has children.", path))
	default:
		l.resources = slices.Delete(l.resources, i, i+1)
		return done
	}
}

// Describe returns a resource's own settings.
func (l *Limiter) Describe(path string) (Settings, Answer) {
	if i := l.at(path); i >= 0 {
		return l.resources[i].set, done
	}
	return Settings{}, Answer{"NOT_FOUND", fmt.Sprintf("Resource with path \"%s\" doesn't exist.", path)}
}

// List returns the paths of roots, or of a resource, and of what is below, sorted.
func (l *Limiter) List(path string, recursive bool) ([]string, Answer) {
	if path != "" && l.at(path) < 0 {
		return nil, Answer{"NOT_FOUND", fmt.Sprintf("Resource with path \"%s\" doesn't exist.", path)}
	}
	var paths []string
	for _, r := range l.resources {
		var in bool
		switch {
		case path == "" && !recursive:
			in = parentOf(r.path) == ""
		case path == "":
			in = true
		default:
			in = r.path == path || recursive && strings.HasPrefix(r.path, path+"/")
		}
		if in {
			paths = append(paths, r.path)
		}
	}
	slices.Sort(paths)
	return paths, done
}

// Effective returns the effective settings of a resource: rate, prefetch and watermark (§3).
func (l *Limiter) Effective(path string) (rate, prefetch, watermark float64) {
	set := l.resources[l.at(path)].set
	if parent := parentOf(path); parent != "" {
		rate, prefetch, watermark = l.Effective(parent)
		if set.Rate != 0 && set.Rate < rate {
			rate = set.Rate
		}
	} else {
		rate, prefetch, watermark = set.Rate, 0.20, 0.75
	}
	if set.Prefetch != 0 {
		prefetch = set.Prefetch
	}
	if set.Watermark != 0 {
		watermark = set.Watermark
	}
	return rate, prefetch, watermark
}
