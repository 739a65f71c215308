package coordination

// History selects what each server remembers of former versions of a node's data. The numbers are part of the stored
// format.
type History uint8

// The kinds of histories.
const (
	HistoryMeta History = iota // versions, times, authors and lengths
	HistoryNone                // nothing
	HistoryData                // the data as well
)
