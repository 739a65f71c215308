// Package cmdline has what the command lines of coordd's programs share: errors of one line that name the flag and
// suggest the right spelling, the commands that every program has, escaped output, the environment and the signals.
package cmdline
