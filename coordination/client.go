package coordination

// Client describes the last client of a session that ends, so that every server knows it after its stream is gone.
// Only events show it.
type Client struct {
	Peer, Library, User string // Peer is an address; MaxClientBytes at most; empty: unknown
	SilentMillis        uint64 // how long no stream had the session
	Lost                Lost
}

// Lost is the reason why the session of a Client has no stream.
type Lost uint8

// The reasons; 0: it has a stream, or the reason is unknown.
const (
	LostStream Lost = iota + 1 // the stream ended: the client closed it, is gone, or did not answer pings
	LostServer                 // the leader lost the connection to the server that had the stream
	LostLeader                 // the leader changed, and the client has not come back since
)

// Bounds of the texts of a Client.
const (
	MaxClientPeerBytes, MaxClientLibraryBytes, MaxClientUserBytes = 48, 48, 64

	MaxClientBytes = MaxClientPeerBytes + MaxClientLibraryBytes + MaxClientUserBytes
)
