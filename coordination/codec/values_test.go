package codec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/coordination/accounts"
	"github.com/coordd/coordd/scheme"
)

// allCommands returns one empty command of each type. TestEveryCommandIsListed compares it with the source.
func allCommands() []coordination.Command {
	return []coordination.Command{
		new(coordination.Attach), new(coordination.StopSession), new(coordination.ExpireSession),
		new(coordination.ExpireWaiter),
		new(coordination.CreateSemaphore), new(coordination.UpdateSemaphore),
		new(coordination.DeleteSemaphore), new(coordination.AcquireSemaphore),
		new(coordination.ReleaseSemaphore), new(coordination.CreateNode), new(coordination.AlterNode),
		new(coordination.DropNode), new(coordination.MakeDirectory), new(coordination.RemoveDirectory),
		new(coordination.ModifyPermissions), new(coordination.AddUser), new(coordination.SetPassword),
		new(coordination.RemoveUser), new(coordination.RotateSigningKey), new(coordination.BeginLineage),
		new(coordination.SetLimits), new(coordination.Mark), new(coordination.EndSession),
		new(coordination.RemoveSemaphore), new(coordination.CreateResource), new(coordination.AlterResource),
		new(coordination.DropResource), new(coordination.SetQuota), new(coordination.BeginAbsence),
		new(coordination.EndAbsence), new(coordination.Quiet), new(coordination.Age), new(coordination.UpdateData),
		new(coordination.SetHistory),
	}
}

// allRows returns a row of each type with no more set than its key needs.
func allRows() []coordination.Row {
	return []coordination.Row{
		coordination.MachineRow{},
		coordination.PathRow{Entry: scheme.Entry{ID: 1}},
		coordination.NodeRow{ID: 1},
		coordination.SessionRow{Node: 1, ID: 2},
		coordination.SemaphoreRow{Node: 1, ID: 2},
		coordination.LinkRow{Node: 1, Order: 2},
		coordination.ResourceRow{Node: 1, ID: 2},
		coordination.UserRow{User: accounts.User{ID: accounts.Position{Index: 1}}},
		coordination.SigningKeyRow{SigningKey: accounts.SigningKey{ID: accounts.Position{Index: 1}}},
		coordination.UserRow{User: accounts.User{ID: accounts.Position{Index: 1, Place: 2}}},
		coordination.SigningKeyRow{SigningKey: accounts.SigningKey{ID: accounts.Position{Index: 1,
			Place: 2}}},
	}
}

// filler sets every field of a value, however deep, by reflection, so that a field added later is not
// forgotten.
type filler struct {
	// random is nil for values that are all different and never zero.
	random *rand.Rand
	next   uint64
	// version leaves out what that version of the format did not have; 0 is the newest.
	version uint64
}

// laterFields came with a version after the first.
var laterFields = map[string]uint64{"Position.Place": 2, "Origin.Answered": 2, "Attach.Identity": 2,
	"Attach.MayWrite": 2, "MachineRow.StampMillis": 2, "MachineRow.Limits": 2, "NodeRow.NextResource": 2,
	"SessionRow.BeganMillis": 2, "SessionRow.Owner": 2, "LinkRow.BeganMillis": 2,
	"MachineRow.ClockMillis": 4, "MachineRow.ClockBaseMillis": 4, "MachineRow.ClockTerm": 4,
	"MachineRow.LineageSince": 4, "MachineRow.QuietTerm": 4, "MachineRow.HeirTerm": 4,
	"MachineRow.CalmSinceMillis": 4,
	"SessionRow.AbsentSince":     4, "SessionRow.AbsentTotalMillis": 4, "LinkRow.Since": 4,
	"NodeRow.History": 7, "MachineRow.NextVersion": 5, "SemaphoreRow.Version": 5, "SemaphoreRow.ChangedMillis": 5,
	"SemaphoreRow.Author": 5, "StopSession.Client": 6, "ExpireSession.Client": 6, "EndSession.Client": 6,
	"EndSession.Semaphore": 7, "EndSession.Order": 7, "RemoveSemaphore.Seen": 7, "RemoveSemaphore.Owner": 7,
	"StateLimits.Reserve": 3, "StateLimits.Links": 3, "Entry.Quota": 3}

func (f *filler) fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			if f.version == 0 || laterFields[name] <= f.version {
				f.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if f.random == nil || f.random.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		f.fillSlice(v)
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.random == nil || f.random.IntN(2) == 0)
	case reflect.Uint64, reflect.Uint32, reflect.Uint8:
		v.SetUint(f.number() & (math.MaxUint64 >> (64 - v.Type().Bits())))
	case reflect.Int32:
		v.SetInt(int64(int32(f.number())))
	default:
		panic(fmt.Sprintf("no way to fill a %s", v.Type()))
	}
}

func (f *filler) fillSlice(v reflect.Value) {
	length := 2
	if f.random != nil {
		length = f.random.IntN(4)
	}
	if length == 0 {
		return // decoding gives nil, never an empty slice
	}
	v.Set(reflect.MakeSlice(v.Type(), length, length))
	for i := range length {
		f.fill(v.Index(i))
	}
}

func (f *filler) number() uint64 {
	if f.random == nil {
		f.next++
		return f.next
	}
	switch f.random.IntN(4) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64
	}
	return f.random.Uint64() >> f.random.IntN(64)
}

func (f *filler) text() string {
	n := f.number()
	if f.random == nil {
		return fmt.Sprintf("text %d", n)
	}
	return strings.Repeat("ä", f.random.IntN(3)) + strings.Repeat("x", f.random.IntN(200))
}

func filledCommands(f *filler) []coordination.Command {
	commands := allCommands()
	for _, c := range commands {
		f.next = 0 // so that a new command leaves the others' values alone
		f.fill(reflect.ValueOf(c).Elem())
	}
	return commands
}

// filledRows fills what is not part of the key.
func filledRows(f *filler) []coordination.Row {
	rows := allRows()
	for i, row := range rows {
		f.next = 0
		v := reflect.New(reflect.TypeOf(row)).Elem()
		f.fill(v)
		ids := reflect.ValueOf(row)
		for _, name := range []string{"Node", "ID", "Order"} {
			given := ids.FieldByName(name)
			if given.IsValid() && !given.IsZero() {
				v.FieldByName(name).Set(given)
			}
		}
		rows[i] = v.Interface().(coordination.Row)
	}
	return rows
}
