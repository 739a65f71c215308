package server

import "testing"

// TestDefaultsFitResources wants the defaults of a process with little to fit into that, and those of others
// to be as documented.
func TestDefaultsFitResources(t *testing.T) {
	small := Hardening{}.withDefaults(Resources{MemoryBytes: 1 << 30, Descriptors: 1024})
	if taken := int64(small.Streams)*streamBytes + int64(
		small.Connections)*connectionBytes + small.ReceivedBytes; taken > 3<<28 {
		t.Errorf("%d bytes of 1 GiB may be taken by %+v", taken, small)
	}
	if small.Connections != 1024-descriptorReserve || small.ConnectionsPerAddress >= small.Connections ||
		small.Strangers >= small.Connections {
		t.Errorf("of 1024 descriptors: %+v", small)
	}
	if large := (Hardening{}).withDefaults(Resources{MemoryBytes: 1 << 40,
		Descriptors: 1 << 20}); large != (Hardening{}).withDefaults(Resources{}) {
		t.Errorf("with plenty of everything: %+v", large)
	}
	if tiny := (Hardening{}).withDefaults(Resources{MemoryBytes: 1,
		Descriptors: 1}); tiny.validate() != nil || tiny.Connections < 1 || tiny.Streams < 1 {
		t.Errorf("with nothing: %+v", tiny)
	}
	if given := (Hardening{Streams: 7, Connections: 8}).withDefaults(Resources{MemoryBytes: 1,
		Descriptors: 1}); given.Streams != 7 || given.Connections != 8 {
		t.Errorf("what is given counts: %+v", given)
	}
}
