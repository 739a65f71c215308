package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/coordd/coordd/internal/cmdline"
)

// The names of the images in docs/recipes.md.
const recipeImage, standInImage = "YOUR-REGISTRY/coordd:VERSION", "YOUR-REGISTRY/coordd-standin:VERSION"

// recipe is the part of docs/recipes.md below a heading.
func recipe(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(readFile(t, "docs/recipes.md"), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/recipes.md has no %q", heading)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

// blocks are the examples of a kind in a text.
func blocks(text, kind string) (found []string) {
	for _, block := range regexp.MustCompile("(?s)```"+kind+"\n(.*?)```").FindAllStringSubmatch(text, -1) {
		found = append(found, block[1])
	}
	return found
}

// TestRecipeForAnyLanguage runs the recipe, with tests that are content if there is a server.
func TestRecipeForAnyLanguage(t *testing.T) {
	script := blocks(recipe(t, "Any language, without containers"), "sh")
	if len(script) != 1 {
		t.Fatalf("%d scripts", len(script))
	}
	dir := t.TempDir()
	for name, built := range map[string]string{"coordd": coordd, "coordd-standin": binary} {
		program, err := filepath.Abs(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	tests := "#!/bin/sh -e\ncoordd health --endpoint \"$YDB_CONNECTION_STRING\"\n" +
		"[ -n \"$1\" ] || coordd node create --endpoint \"$YDB_CONNECTION_STRING\" locks\n" +
		"coordd-standin ctl pending\necho done \"$1\"\n"
	if err := os.WriteFile(filepath.Join(dir, "your-tests"), []byte(tests), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-eu", "-c", script[0])
	command.Dir, command.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	command.WaitDelay = waitMax
	if err := command.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		t.Fatalf("%v\n%s%s%s", err, out.String(), errors.String(), log)
	}
	for _, want := range []string{"serving\n", "0\ndone \n", "2\ndone --once-more\n",
		`"kind": "create-node"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil || !strings.Contains(string(log), "stopped") {
		t.Errorf("%v: the server was not stopped in the end:\n%s", err, log)
	}
}

// recipeContainer is a container as the recipes have it.
type recipeContainer struct {
	Image, Name string // GitLab calls the image a name
	Ports       []string
	Environment map[string]string
	Env         map[string]string
	Variables   map[string]string
	Command     []string
	DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
}

// TestRecipesOfContainers holds each recipe against what the image offers.
func TestRecipesOfContainers(t *testing.T) {
	offered := imageOffers(t)
	var compose struct{ Services map[string]recipeContainer }
	decode(t, one(t, "Docker compose"), &compose)
	offered.check(t, compose.Services["coordd"], true, "coordd")
	offered.user(t, compose.Services["tests"].Environment, "coordd")
	if compose.Services["tests"].DependsOn["coordd"].Condition != "service_healthy" || !offered.health {
		t.Error("the tests do not wait for the health check, or the image has none")
	}

	type job struct {
		Env      map[string]string
		Services map[string]recipeContainer
		Steps    []struct{ Run string }
	}
	var github struct{ Jobs struct{ Test job } }
	examples := blocks(recipe(t, "GitHub Actions"), "yaml")
	if len(examples) != 2 {
		t.Fatalf("%d jobs", len(examples))
	}
	decode(t, examples[0], &github)
	service := github.Jobs.Test.Services["coordd"]
	offered.check(t, service, false, "")
	offered.user(t, github.Jobs.Test.Env, "localhost")
	if !slices.Contains(service.Ports, "127.0.0.1:2136:2136") {
		t.Errorf("ports are %v", service.Ports)
	}
	github.Jobs.Test = job{}
	decode(t, examples[1], &github)
	offered.user(t, github.Jobs.Test.Env, "localhost")
	steps := ""
	for _, step := range github.Jobs.Test.Steps {
		steps += step.Run + "\n"
	}
	run := regexp.MustCompile(
		`docker run --detach --name coordd ((?:--publish \S+ )+)(\S+)\n`).FindStringSubmatch(steps)
	if run == nil {
		t.Fatalf("nothing is run in\n%s", steps)
	}
	published := strings.Fields(strings.ReplaceAll(run[1], "--publish ", ""))
	offered.check(t, recipeContainer{Image: run[2], Ports: published}, true, "")
	wait := regexp.MustCompile(`docker exec coordd /coordd (.*)\n`).FindStringSubmatch(steps)
	if wait == nil {
		t.Fatalf("nobody waits in\n%s", steps)
	}
	args := strings.Fields(wait[1])
	if said, err := exec.CommandContext(t.Context(), coordd, append(args, "--help")...).CombinedOutput(); err != nil ||
		args[0] != "health" {
		t.Errorf("%v: %v: %s", args, err, said)
	}

	var gitlab struct {
		Test struct {
			Services []struct {
				recipeContainer `yaml:",inline"`
				Alias           string
			}
			Variables map[string]string
		}
	}
	decode(t, one(t, "GitLab CI"), &gitlab)
	if len(gitlab.Test.Services) != 1 {
		t.Fatalf("%d services", len(gitlab.Test.Services))
	}
	gitlabService := gitlab.Test.Services[0]
	offered.check(t, gitlabService.recipeContainer, true, gitlabService.Alias)
	offered.user(t, gitlab.Test.Variables, gitlabService.Alias)
	if gitlabService.Variables["HEALTHCHECK_TCP_PORT"] != "2136" {
		t.Error("GitLab waits for another port")
	}

	program := blocks(recipe(t, "Testcontainers"), "go")
	if len(program) != 1 || !strings.Contains(readFile(t, "compat/go/testcontainers/coordd_test.go"),
		program[0]) {
		t.Error("the program of the page is not in compat/go/testcontainers/coordd_test.go")
	}
	for _, port := range regexp.MustCompile(`\d+/tcp`).FindAllString(program[0], -1) {
		if !slices.Contains(offered.ports, strings.TrimSuffix(port, "/tcp")) {
			t.Errorf("the image has no port %s", port)
		}
	}
}

// one is the only YAML below a heading.
func one(t *testing.T, heading string) string {
	t.Helper()
	found := blocks(recipe(t, heading), "yaml")
	if len(found) != 1 {
		t.Fatalf("%d files below %s", len(found), heading)
	}
	return found[0]
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// imageOffer lists the features of the image.
type imageOffer struct {
	ports, variables []string
	health           bool
}

func imageOffers(t *testing.T) imageOffer {
	t.Helper()
	file := readFile(t, "docker/Dockerfile")
	expose := regexp.MustCompile(`(?m)^EXPOSE (.*)$`).FindStringSubmatch(file)
	if expose == nil {
		t.Fatal("the image has no ports")
	}
	offer := imageOffer{ports: strings.Fields(expose[1]),
		health: strings.Contains(file, `CMD ["/coordd", "health"]`)}
	for _, o := range options() {
		offer.variables = append(offer.variables, cmdline.Variable(o.Name))
	}
	program := readFile(t, "internal/serve/localydb.go")
	for _, found := range regexp.MustCompile(`localYDBGiven\(env, "([A-Z_]+)"`).FindAllStringSubmatch(program,
		-1) {
		offer.variables = append(offer.variables, found[1])
	}
	return offer
}

// check holds a container against the image. Orders given by a name need that name to be known.
func (o *imageOffer) check(t *testing.T, c recipeContainer, standin bool, name string) {
	t.Helper()
	want := recipeImage
	if standin {
		want = standInImage
	}
	if c.Image != want && c.Name != want || len(c.Command) > 0 {
		t.Errorf("image %q%q, command %q", c.Image, c.Name, c.Command)
	}
	for _, published := range c.Ports {
		parts := strings.Split(published, ":")
		if len(parts) != 3 || parts[0] != "127.0.0.1" || !slices.Contains(o.ports, parts[2]) {
			t.Errorf("it publishes %s", published)
		}
	}
	for _, variables := range []map[string]string{c.Environment, c.Env, c.Variables} {
		for variable := range variables {
			known := slices.Contains(o.variables, variable) || variable == "HEALTHCHECK_TCP_PORT" ||
				!standin && variable == "COORDD_IN_MEMORY"
			if !known || variable == "COORDD_ADVERTISE" {
				t.Errorf("it sets %s", variable)
			}
		}
		if hosts, given := variables["COORDD_HTTP_HOSTS"]; given && hosts != name {
			t.Errorf("it goes by %s, not %s", hosts, name)
		}
	}
	if name != "" && c.Environment["COORDD_HTTP_HOSTS"]+c.Variables["COORDD_HTTP_HOSTS"] != name {
		t.Errorf("it takes no orders as %s", name)
	}
}

// user checks the settings of the tests against the image.
func (o *imageOffer) user(t *testing.T, variables map[string]string, host string) {
	t.Helper()
	if got := variables["YDB_CONNECTION_STRING"]; got != "grpc://"+host+":2136/local" ||
		!slices.Contains(o.ports, "2136") {
		t.Errorf("tests connect to %s", got)
	}
	orders := variables[addressVariable]
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if orders != "" && (orders != host+":8765" || !slices.Contains(o.ports, "8765")) {
		t.Errorf("tests give orders to %s", orders)
	}
}
