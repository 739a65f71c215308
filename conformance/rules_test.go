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

// rule is one rule of the specification, as rules.txt lists it.
type rule struct {
	ID   string // such as "coordination §3.4 8c"
	Text string // what it says, in half a sentence
	// Later is why nothing shows the rule yet, Never why nothing can here; empty for the others.
	Later, Never string
	Tests        []string // Go tests that show the rule, as package.Name
	Scripts      []string // that name the rule
}

// ruleMap lists the rules with the scripts that name each. It fails if a script names a rule that is not listed.
func ruleMap(scripts []*Script) ([]rule, error) {
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

// printRuleMap writes the map: each rule with the scripts that show it, or why none can.
func printRuleMap(w io.Writer, rules []rule) error {
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
func parseRuleList(text string) ([]rule, error) {
	var rules []rule
	for number, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, rest, found := strings.Cut(line, ": ")
		if !found {
			return nil, fmt.Errorf("rules.txt, line %d: want \"rule: text\"", number+1)
		}
		rule := rule{ID: id, Text: rest}
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
