package peers

import "time"

// Bounds on the traffic between members.
const (
	// MembersTextMax bounds the members as a member lists them, for people.
	MembersTextMax = 2 << 10
	// ReconnectPauseMax is the longest pause before a server that did not answer is called again.
	ReconnectPauseMax = time.Second
	// MessageMax bounds one message on the wire.
	MessageMax = 64 << 20

	callersMax = 256 // connections that others have opened; a member has about eight
	// of them, without a member's certificate; two of each member may be so at once
	strangersMax      = 32
	strangerBytesMax  = 1 << 20 // that come on a connection before a member's certificate
	laneMessagesMax   = 4_096
	laneBytesMax      = 48 << 20 // one message is at most raftstore.MaxCommandBytes and a little
	frameBytesMax     = 1 << 20  // no further message joins a frame beyond this
	peerWindow        = 8 << 20  // bytes that a member may send before they are read
	reconnectPauseMin = 20 * time.Millisecond
	peerKeepalive     = 10 * time.Second
	peerHandshakeMax  = 3 * time.Second        // until a new connection talks
	dialHangs         = 250 * time.Millisecond // from the beginning of a dial
	probeInterval     = time.Second
	probePatience     = 2 * time.Second // until a probe counts as not answered
	acceptGrace       = 3 * time.Second // after which a stream that has not ended counts as accepted
	snapshotTimeMax   = 10 * time.Minute
	messageOverhead   = 64 // what a message counts besides its entries
	entryOverhead     = 32 // what an entry counts besides its data
	handshakeTextMax  = 228
)
