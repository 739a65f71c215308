package coordination

// NodeConfig is the configuration of a coordination node exactly as it was sent: nothing is validated or
// defaulted when it is stored (§1.1). The methods give the values that rule (§1.5).
type NodeConfig struct {
	SelfCheckPeriodMillis    uint32
	SessionGracePeriodMillis uint32
	ReadConsistencyMode      int32
	AttachConsistencyMode    int32
	RateLimiterCountersMode  int32
}

// The consistency modes of the protocol that change behaviour; any other number counts as the default.
const (
	ConsistencyStrict  int32 = 1
	ConsistencyRelaxed int32 = 2
)

// CountersDetailed is the mode of rate limiters' counters that is not the default.
const CountersDetailed int32 = 2

const (
	defaultSelfCheckMillis = 1000
	minSelfCheckMillis     = 500
	maxSelfCheckMillis     = 10_000
	defaultGraceMillis     = 10_000
	maxGraceMillis         = 30_000
	graceMarginMillis      = 1000
)

// EffectiveSelfCheckMillis is S, 500 to 10000.
func (c NodeConfig) EffectiveSelfCheckMillis() uint64 {
	period := uint64(c.SelfCheckPeriodMillis)
	if period == 0 {
		period = defaultSelfCheckMillis
	}
	return min(max(period, minSelfCheckMillis), maxSelfCheckMillis)
}

// EffectiveGraceMillis is G, 1500 to 30000 and at least S + 1000.
func (c NodeConfig) EffectiveGraceMillis() uint64 {
	grace := uint64(c.SessionGracePeriodMillis)
	if grace == 0 {
		grace = defaultGraceMillis
	}
	return max(min(grace, maxGraceMillis), c.EffectiveSelfCheckMillis()+graceMarginMillis)
}

// StrictReads reports whether describes must prove leadership first. Only the exact value STRICT is strict.
func (c NodeConfig) StrictReads() bool { return c.ReadConsistencyMode == ConsistencyStrict }

// StrictAttach reports whether every attach goes through the log. The default, 0, is strict.
func (c NodeConfig) StrictAttach() bool {
	return c.AttachConsistencyMode == ConsistencyStrict || c.AttachConsistencyMode == 0
}

// DetailedCounters reports whether rate limiters have metrics for each resource.
func (c NodeConfig) DetailedCounters() bool { return c.RateLimiterCountersMode == CountersDetailed }

// Merge returns the configuration after an alter: fields that are zero in sent keep their stored value
// (§1.2).
func (c NodeConfig) Merge(sent NodeConfig) NodeConfig {
	merged := c
	if sent.SelfCheckPeriodMillis != 0 {
		merged.SelfCheckPeriodMillis = sent.SelfCheckPeriodMillis
	}
	if sent.SessionGracePeriodMillis != 0 {
		merged.SessionGracePeriodMillis = sent.SessionGracePeriodMillis
	}
	if sent.ReadConsistencyMode != 0 {
		merged.ReadConsistencyMode = sent.ReadConsistencyMode
	}
	if sent.AttachConsistencyMode != 0 {
		merged.AttachConsistencyMode = sent.AttachConsistencyMode
	}
	if sent.RateLimiterCountersMode != 0 {
		merged.RateLimiterCountersMode = sent.RateLimiterCountersMode
	}
	return merged
}
