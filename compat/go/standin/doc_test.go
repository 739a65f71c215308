// Package standin_test shows the stand-in to the tests of programs that use the unmodified Go SDK, and what
// it does to their modules.
package standin_test
