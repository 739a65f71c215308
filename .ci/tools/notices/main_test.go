package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a file of a module in dir.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

const mit = "Permission is hereby granted,\n free of charge, to any person\n"

// TestNotices wants each text once, those beside linked packages too, and none from elsewhere.
func TestNotices(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	write(t, first, "LICENSE", mit)
	write(t, first, "NOTICE.txt", "Made by somebody.\r\n")
	write(t, first, "license.go", "package first")
	write(t, first, "in/COPYING", "Redistributions in binary form must reproduce this.")
	write(t, first, "in/deep/x.go", "package deep")
	write(t, first, "out/LICENSE", "not linked")
	write(t, second, "LICENSE.md", mit)
	made, err := notices([]*module{
		{"a.example/first", "a.example/first v1.0.0", first, []string{first, filepath.Join(first, "in/deep")},
			""},
		{"a.example/second", "a.example/second v2.0.0", second, []string{second}, ""},
		{"work", "work 1.0", second, nil, filepath.Join(second, "LICENSE.md")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a.example/first v1.0.0: BSD-2-Clause and MIT, texts [1] [2] [3]\n" +
			"a.example/second v2.0.0: MIT, texts [1]\n" +
			"work 1.0: MIT, texts [1]\n",
		"[1] LICENSE of a.example/first\n", "[2] NOTICE.txt of a.example/first\n", "Made by somebody.\n",
		"[3] in/COPYING of a.example/first\n"} {
		if strings.Count(string(made), want) != 1 {
			t.Errorf("want once %q in\n%s", want, made)
		}
	}
	for _, unwanted := range []string{"not linked", "package first", "package deep", "[4]", "\r"} {
		if strings.Contains(string(made), unwanted) {
			t.Errorf("%q is in\n%s", unwanted, made)
		}
	}
}

// TestUnknownLicence: somebody has to look at it first.
func TestUnknownLicence(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"", "All rights reserved."} {
		if content != "" {
			write(t, dir, "LICENSE", content)
		}
		_, err := notices([]*module{{"a.example/closed", "a.example/closed v1.0.0", dir, []string{dir}, ""}})
		if err == nil || !strings.Contains(err.Error(), "a.example/closed v1.0.0: no licence") {
			t.Errorf("%q: got %v", content, err)
		}
	}
}

// TestKinds are the licences by their words.
func TestKinds(t *testing.T) {
	for text, want := range map[string][]string{
		mit: {"MIT"},
		"Neither the name of X nor the names of its contributors ... " +
			"Redistributions in binary form must reproduce": {"BSD-3-Clause"},
		"Mozilla Public License, version 2.0": {"MPL-2.0"},
		"Apache License\n   Version 2.0":      {"Apache-2.0"},
		"Made by somebody.":                   nil,
	} {
		if got := kindsOf(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
