package inspect

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/server/adminpb"
)

// maxRepeats bounds the answers of a server's history that are kept, and maxRepeatBytes each with its request.
const (
	maxRepeats     = 32
	maxRepeatBytes = 256 << 10
)

// repeats are answers to administrators since the history last grew: consoles repeat their questions, each of which
// reads up to 64 MiB. The zero value is ready.
type repeats struct {
	mutex   sync.Mutex
	version uint64            // of the history
	answers map[string][]byte // encoded, since an answer is changed on its way to the caller
}

// keyOf identifies a request. It is empty for one that asks for another time whenever it is repeated.
func keyOf(r *adminpb.EventsRequest) string {
	if r.GetWithinMillis() > 0 {
		return ""
	}
	key, _ := proto.MarshalOptions{Deterministic: true}.Marshal(r) // nothing about it is required
	return string(key)
}

// find sets response to the answer with a key, if that of this version of the history is kept.
func (k *repeats) find(version uint64, key string, response *adminpb.EventsResponse) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	answer, found := k.answers[key]
	return found && k.version == version && proto.Unmarshal(answer, response) == nil
}

// keep keeps the answer with a key, of a version of the history that was read before the answer.
func (k *repeats) keep(version uint64, key string, response *adminpb.EventsResponse) {
	answer, err := proto.Marshal(response)
	if key == "" || err != nil || len(key)+len(answer) > maxRepeatBytes {
		return
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.answers == nil || k.version < version || len(k.answers) >= maxRepeats {
		k.version, k.answers = max(k.version, version), map[string][]byte{}
	}
	if k.version == version {
		k.answers[key] = answer
	}
}
