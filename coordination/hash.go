package coordination

// rowHash is 64-bit FNV-1a over a row's fields, each with its length or in fixed width, so that equal hashes
// mean equal rows for all practical purposes. It is written out here because it must never change: servers
// compare digests.
type rowHash uint64

// DigestVersion is that of the hashes below. Digests of different versions say nothing about each other, so
// it must be raised if a row gets another hash than it had; a row that there could not be before does not
// count.
const DigestVersion = 1

const (
	fnvOffset rowHash = 14695981039346656037
	fnvPrime  rowHash = 1099511628211
)

func newRowHash(kind RowKind) rowHash { return fnvOffset.number(uint64(kind)) }

func (h rowHash) number(v uint64) rowHash {
	for range 8 {
		h = (h ^ rowHash(v&0xff)) * fnvPrime
		v >>= 8
	}
	return h
}

func (h rowHash) text(s string) rowHash {
	h = h.number(uint64(len(s)))
	for i := range len(s) {
		h = (h ^ rowHash(s[i])) * fnvPrime
	}
	return h
}

func (h rowHash) bytes(b []byte) rowHash {
	h = h.number(uint64(len(b)))
	for _, c := range b {
		h = (h ^ rowHash(c)) * fnvPrime
	}
	return h
}

func (h rowHash) flag(f bool) rowHash {
	if f {
		return h.number(1)
	}
	return h.number(0)
}

// later adds a number that rows did not always have: 0 leaves the hash as it was without it. Each such number of a kind
// of rows has a name of its own.
func (h rowHash) later(name, v uint64) rowHash {
	if v == 0 {
		return h
	}
	return h.number(name).number(v)
}

func (h rowHash) epoch(e Epoch) rowHash { return h.number(uint64(e.Term)).number(e.Counter) }

func (r MachineRow) hash() uint64 {
	h := newRowHash(RowMachine).number(uint64(r.NextNode))
	if r.Lineage != 0 { // so that machines without one keep the digests they had before there were any
		h = h.number(r.Lineage).number(r.CounterBase)
	}
	h = h.later(1, r.StampMillis)
	if l := r.Limits; l != (StateLimits{}) {
		h = h.number(7).number(l.State).number(l.NodeBytes).number(l.Sessions).number(l.Semaphores).
			later(8, l.Reserve).later(9, l.Links)
	}
	return uint64(h.later(10, r.ClockMillis).later(11, r.ClockBaseMillis).later(12, uint64(r.ClockTerm)).
		later(13, r.LineageSince).later(14, uint64(r.QuietTerm)).later(15, uint64(r.HeirTerm)).
		later(16, r.CalmSinceMillis).later(17, r.NextVersion))
}

func (r PathRow) hash() uint64 {
	h := newRowHash(RowPath).number(uint64(r.ID)).number(uint64(r.Parent)).text(r.Name).number(uint64(r.Kind)).
		number(uint64(r.Node)).text(r.Owner).flag(r.InterruptInheritance).
		number(r.Created.PlanStep).number(r.Created.TxID)
	for _, p := range r.Permissions {
		h = h.text(p.Subject).number(uint64(len(p.Names)))
		for _, name := range p.Names {
			h = h.text(name)
		}
	}
	return uint64(h.later(1, r.Quota.Bytes).later(2, r.Quota.Entries))
}

func (r NodeRow) hash() uint64 {
	c := r.Config
	return uint64(newRowHash(RowNode).number(uint64(r.ID)).
		number(uint64(c.SelfCheckPeriodMillis)).number(uint64(c.SessionGracePeriodMillis)).
		number(uint64(c.ReadConsistencyMode)).number(
		uint64(c.AttachConsistencyMode)).number(uint64(c.RateLimiterCountersMode)).
		number(uint64(r.NextSession)).number(uint64(r.NextSemaphore)).number(uint64(r.NextOrder)).
		later(1, uint64(r.NextResource)).later(2, uint64(r.History)))
}

func (r SessionRow) hash() uint64 {
	h := newRowHash(RowSession).number(uint64(r.Node)).number(uint64(r.ID)).number(r.TimeoutMillis).
		text(r.Description).text(r.ProtectionKey).epoch(r.AttachEpoch).number(r.Nonce).later(1, r.BeganMillis)
	if r.Owner != (Identity{}) {
		h = h.number(2).number(uint64(r.Owner.Kind)).text(r.Owner.Subject).
			number(r.Owner.User.Index).number(uint64(r.Owner.User.Place))
	}
	return uint64(h.later(3, r.AbsentSince).later(4, r.AbsentTotalMillis))
}

func (r SemaphoreRow) hash() uint64 {
	h := newRowHash(RowSemaphore).number(uint64(r.Node)).number(uint64(r.ID)).text(r.Name).bytes(r.Data).
		number(r.Limit).flag(r.Ephemeral).later(1, r.Version).later(2, r.ChangedMillis)
	if r.Author != "" {
		h = h.number(3).text(r.Author)
	}
	return uint64(h)
}

func (r LinkRow) hash() uint64 {
	return uint64(
		newRowHash(RowLink).number(uint64(r.Node)).number(uint64(r.Order)).number(uint64(r.Session)).
			number(uint64(r.Semaphore)).number(r.Count).number(r.TimeoutMillis).bytes(r.Data).
			epoch(r.Address.Epoch).number(uint64(r.Address.Sequence)).number(uint64(r.WaitEpoch.Index)).flag(r.Owner).
			later(1, uint64(r.WaitEpoch.Place)).later(2, r.BeganMillis).later(3, r.Since))
}

func (r ResourceRow) hash() uint64 {
	return uint64(newRowHash(RowResource).number(uint64(r.Node)).number(uint64(r.ID)).text(r.Path).
		number(uint64(r.MaxUnitsPerSecond)).number(uint64(r.MaxBurstSizeCoefficient)).
		number(uint64(r.PrefetchCoefficient)).number(uint64(r.PrefetchWatermark)).bytes(r.MoreSettings).bytes(r.More))
}

func (DeletedRow) hash() uint64 { return 0 }
