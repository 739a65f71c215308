package conformance

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"strings"
)

//go:embed rules.txt
var rulesText string

// Rule is one rule of the specification, as rules.txt lists it.
type Rule struct {
	ID   string // such as "coordination §3.4 8c"
	Text string // what it says, in half a sentence
	// Later is why nothing shows the rule yet, Never why nothing can here; empty for the others.
	Later, Never string
	Tests        []string // Go tests that show the rule, as package.Name
	Scripts      []string // that name the rule
}

// Map tells for each rule which scripts name it. It fails if a script names a rule that is not listed.
func Map(scripts []*Script) ([]Rule, error) {
	rules, err := parseRuleList(rulesText)
	if err != nil {
		return nil, err
	}
	at := make(map[string]int)
	for i, rule := range rules {
		if _, twice := at[rule.ID]; twice {
			return nil, fmt.Errorf("rules.txt: %s is listed twice", rule.ID)
		}
		at[rule.ID] = i
	}
	for _, script := range scripts {
		for _, id := range script.Rules {
			i, known := at[id]
			if !known {
				return nil, fmt.Errorf("script %s names rule %q, which rules.txt does not list", script.Name,
					id)
			}
			rules[i].Scripts = append(rules[i].Scripts, script.Name)
		}
	}
	return rules, nil
}

// PrintMap writes the map: each rule with the scripts that show it, or why none can.
func PrintMap(w io.Writer, rules []Rule) error {
	for _, rule := range rules {
		shown := strings.Join(rule.Scripts, ", ")
		switch {
		case rule.Later != "":
			shown = "later: " + rule.Later
		case rule.Never != "":
			shown = "never: " + rule.Never
		case len(rule.Tests) > 0:
			shown = strings.Join(append(rule.Scripts, rule.Tests...), ", ")
		case shown == "":
			shown = "NO SCRIPT"
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n    %s\n", rule.ID, rule.Text, shown); err != nil {
			return err
		}
	}
	return nil
}

var ruleMark = regexp.MustCompile(`^(.*) \((later|never|test): (.*)\)$`)

// parseRuleList reads rules.txt: "ID: text", perhaps with a mark such as "(later: why)" behind it; # begins a
// comment.
func parseRuleList(text string) ([]Rule, error) {
	var rules []Rule
	for number, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, rest, found := strings.Cut(line, ": ")
		if !found {
			return nil, fmt.Errorf("rules.txt, line %d: want \"rule: text\"", number+1)
		}
		rule := Rule{ID: id, Text: rest}
		if mark := ruleMark.FindStringSubmatch(rest); mark != nil {
			rule.Text = mark[1]
			switch value := mark[3]; mark[2] {
			case "later":
				rule.Later = value
			case "never":
				rule.Never = value
			case "test":
				rule.Tests = strings.Split(value, ", ")
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// parseRules reads a head line: the document, then sections with their rules, such as "coordination §3.4 8c,
// §3.5 1".
func parseRules(value string) ([]string, error) {
	document, list, found := strings.Cut(value, " ")
	if !found {
		return nil, fmt.Errorf("rule: want a document and a section, got %q", value)
	}
	var rules []string
	for rule := range strings.SplitSeq(list, ", ") {
		if !strings.HasPrefix(rule, "§") {
			return nil, fmt.Errorf("rule: %q does not begin with §", rule)
		}
		rules = append(rules, document+" "+rule)
	}
	return rules, nil
}
