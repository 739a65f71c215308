// Command mutation checks the conformance suite itself: it puts hand-made defects into package coordination,
// and into what compares the states of servers, in a copy that only the compiler sees, and wants the
// transcripts, or else the reference model, or else the tests of entries with several commands, of stamps, of
// owners, of limits, of servers that are late, of permits and credit, of what happens when leaders and relays
// change, of checkpoints, of marks and of servers that diverge, and of stand-ins, to find each.
//
// A defect is a file in testdata: what it breaks, the file it is in, and the old and the new text. The old
// text must occur exactly once, and be in the body of one function. A line may require that the silence simulation
// finds the defect as well. To compile and link the tests takes much longer than to run them, so that is done once,
// with all defects: a variable of the environment selects the one in force.
//
//	go run ./conformance/mutation            # all of them; exit code 1 if one survives or no longer applies
//	go run ./conformance/mutation -run watch # those whose name matches
package main
