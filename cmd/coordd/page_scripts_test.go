package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runScript runs a script of a page against a server of its own, with programs for those that the page only names.
func runScript(t *testing.T, script string) {
	t.Helper()
	_, endpoint, _ := lockServer(t)
	place := t.TempDir()
	for _, name := range []string{"report.sh", "reload", "web"} {
		if err := os.WriteFile(filepath.Join(place, name), []byte("#!/bin/sh\necho done\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script = strings.NewReplacer("/srv/report", place, "\n...\n", "\n").Replace("coordd node create locks\n" + script)
	output, err := shellIn(t, place, []string{"COORDD_ENDPOINT=" + endpoint}, "sh", "-e", "-c", script)
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, script, output)
	}
}

// TestPageScripts runs the blocks of the pages that name it in their mark.
func TestPageScripts(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile("(?s)<!-- run: TestPageScripts -->\n```\\w*\n(.*?)```")
	found := 0
	for _, page := range pages {
		text := readFile(t, filepath.Join("docs", filepath.Base(page)))
		for _, block := range marked.FindAllStringSubmatch(text, -1) {
			found++
			runScript(t, block[1])
		}
	}
	if found == 0 {
		t.Error("no page has a block for this test")
	}
}

// TestMigrationPage runs the commands in the tables of docs/migration.md, one after the other. What follows something
// for ever ends after the first change. Commands without arguments are only named, and those for administrators are
// examples of their help.
func TestMigrationPage(t *testing.T) {
	t.Parallel()
	var script strings.Builder
	commands := regexp.MustCompile("`(coordd [^`]+)`")
	for line := range strings.Lines(readFile(t, "docs/migration.md")) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, found := range commands.FindAllStringSubmatch(line, -1) {
			command := strings.NewReplacer("--publish 10.0.0.7:8080", "--publish 10.0.0.7:8080 -- ./web",
				" watch app settings", " watch app settings --changes 1", "-- ...", "-- ./report.sh").Replace(found[1])
			switch {
			case strings.HasPrefix(command, "coordd cluster "), strings.Count(command, " ") < 3:
			case strings.Contains(command, "--keep"):
				script.WriteString(`eval "$(` + command + ")\"\n")
			default:
				script.WriteString(command + "\n")
			}
		}
	}
	if n := strings.Count(script.String(), "\n"); n < 12 {
		t.Fatalf("%d commands", n)
	}
	runScript(t, script.String())
}

// starts are the programs of docs/start.md: the block's language, what proves that the SDK is there, the file around
// the block, and the command that runs it. The commands run in the folder that COORDD_SDKS names, if it is set, with
// the packages of npm and the folder jars of Java in it.
var starts = []struct{ language, probe, file, before, after, run string }{
	{"python", "python3 -c 'import ydb'", "start.py", "", "", "python3 start.py"},
	{"js", "node -e 'import(\"@ydbjs/coordination\")'", "start.mjs", "", "", "node start.mjs"},
	{"java", "ls jars/ydb-sdk-coordination*.jar", "Start.java", `import java.time.Duration;
import tech.ydb.coordination.*;
import tech.ydb.core.grpc.GrpcTransport;
public class Start { public static void main(String[] args) throws Exception {
`, "}}\n", "java -cp 'jars/*' Start.java"},
	{"cpp", "cmake --find-package -DNAME=ydb-cpp-sdk -DCOMPILER_ID=GNU -DLANGUAGE=CXX -DMODE=EXIST", "start.cpp",
		`#include <ydb-cpp-sdk/client/coordination/coordination.h>
#include <ydb-cpp-sdk/client/driver/driver.h>
#include <iostream>
int main() {
`, "driver.Stop(true);\n}\n", `cat >CMakeLists.txt <<'end'
cmake_minimum_required(VERSION 3.22)
project(start CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Threads REQUIRED)
find_package(ydb-cpp-sdk REQUIRED CONFIG COMPONENTS Driver Coordination)
add_executable(start start.cpp)
target_link_libraries(start PRIVATE YDB-CPP-SDK::Driver YDB-CPP-SDK::Coordination Threads::Threads)
end
cmake -B build . && cmake --build build && build/start`},
}

// TestStarts runs those whose SDK is installed.
func TestStarts(t *testing.T) {
	page := readFile(t, "docs/start.md")
	for _, start := range starts {
		t.Run(start.language, func(t *testing.T) {
			_, block, _ := strings.Cut(page, "```"+start.language+"\n")
			block, _, found := strings.Cut(block, "```\n")
			place := cmp.Or(os.Getenv("COORDD_SDKS"), t.TempDir())
			if !found || strings.Count(page, "```"+start.language+"\n") != 1 {
				t.Fatal("docs/start.md does not have one program")
			}
			if said, err := shellIn(t, place, nil, "sh", "-c", start.probe); err != nil {
				t.Skipf("NOT TESTED: the SDK is not installed: %s", said)
			}
			_, endpoint, _ := lockServer(t)
			address := strings.TrimSuffix(strings.TrimPrefix(endpoint, "grpc://"), "/local")
			program := start.before + strings.ReplaceAll(block, "127.0.0.1:2136", address) + start.after
			if err := os.WriteFile(filepath.Join(place, start.file), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			said, err := shellIn(t, place, nil, "sh", "-c", start.run)
			if err != nil || !strings.Contains(said, "locked\n") {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}
