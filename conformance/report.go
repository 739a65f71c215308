package conformance

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"time"
)

// junitSuite and what is in it are the form of a report that CI systems read.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Seconds  float64     `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Seconds float64       `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the results as one JUnit test suite: a difference is a failure, a script that could not
// be carried out an error.
func WriteJUnit(w io.Writer, results []Result) error {
	suite := junitSuite{Name: "coordd-conformance", Tests: len(results)}
	var took time.Duration
	for i := range results {
		r := &results[i]
		c := junitCase{Class: r.Script.Section(), Name: r.Script.Name, Seconds: r.Took.Seconds()}
		took += r.Took
		switch r.Verdict() {
		case Differs:
			suite.Failures++
			c.Failure = &junitProblem{Message: r.Script.Title, Text: printable(r.Outcome.Diff)}
		case Broken:
			suite.Errors++
			c.Error = &junitProblem{Message: printable(r.Err.Error())}
		case Skipped:
			suite.Skipped++
			c.Skipped = &junitProblem{Message: r.Outcome.Skipped}
		}
		suite.Cases = append(suite.Cases, c)
	}
	suite.Seconds = took.Seconds()
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// printable makes sure that a text can stand in XML, which knows no control characters.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// jsonResult is one script in the JSON report.
type jsonResult struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Section string   `json:"section"`
	Rules   []string `json:"rules"`
	Verdict Verdict  `json:"verdict"`
	Skipped string   `json:"skipped,omitempty"`
	Error   string   `json:"error,omitempty"`
	Diff    string   `json:"diff,omitempty"`
	Differs []string `json:"known_differences,omitempty"` // of coordd from YDB
	Millis  int64    `json:"millis"`
}

// WriteJSON writes the results as a JSON array with one object for each script.
func WriteJSON(w io.Writer, results []Result) error {
	list := make([]jsonResult, 0, len(results))
	for i := range results {
		r := &results[i]
		one := jsonResult{Name: r.Script.Name, Title: r.Script.Title, Section: r.Script.Section(),
			Rules: r.Script.Rules, Verdict: r.Verdict(), Skipped: r.Outcome.Skipped, Diff: r.Outcome.Diff,
			Differs: r.Script.Differs, Millis: r.Took.Milliseconds()}
		if r.Err != nil {
			one.Error = r.Err.Error()
		}
		list = append(list, one)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(list)
}
