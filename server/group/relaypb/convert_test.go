package relaypb

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coordd/coordd/coordination"
)

// What a leader cannot encode ends the stream that it is for.
func TestMessageThatCannotBeEncoded(t *testing.T) {
	for name, m := range map[string]coordination.Message{
		"refusal": {Kind: coordination.MessageResult, Refusal: &coordination.Refusal{Text: "m\xfcller"}},
		"description": {Kind: coordination.MessageDescribed,
			Description: &coordination.SemaphoreDescription{Name: "m\xfcller"}},
	} {
		p := EncodeMessage(7, &m)
		if _, err := proto.Marshal(p); err != nil || p.GetStream() != 7 {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if back := DecodeMessage(p); back.Kind != coordination.MessageEnd || back.Refusal == nil ||
			back.Description != nil {
			t.Errorf("%s: %+v", name, back)
		}
	}
}
