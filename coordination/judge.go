package coordination

import (
	"fmt"

	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// Every command of a call is judged first, which changes nothing, and carried out then. So a server can judge
// a command by its own state before it proposes it: most of what is refused never comes into the log.

// Refusal is the outcome that the command of a call would have now, if that is a refusal.
func (m *Machine) Refusal(c Command) (outcome.Outcome, bool) {
	call, is := c.(callCommand)
	if !is {
		return outcome.Outcome{}, false
	}
	_, answer := judge{m}.judge(call)
	return answer, !answer.OK()
}

func (m *Machine) executeCall(c callCommand) {
	step, answer := judge{m}.judge(c)
	if step != nil {
		step()
		judge{m}.callOccurs(c)
	}
	call := *c.name()
	m.calls.remember(call, m.index, answer)
	m.emit(Effect{Kind: EffectCallDone, Call: call, Outcome: answer})
}

// judge returns the outcome of the command of a call, and the step that carries it out; nil if it is refused
// or changes nothing. The step is valid until the machine changes.
func (m judge) judge(c callCommand) (scheme.Step, outcome.Outcome) {
	m.administers = m.Subject(c.by()).Exempt
	defer func() { m.administers = false }()
	switch c := c.(type) {
	case *CreateNode:
		return m.createNode(c)
	case *AlterNode:
		return m.alterNode(c)
	case *DropNode:
		return m.dropNode(c)
	case *MakeDirectory:
		return m.makeDirectory(c)
	case *RemoveDirectory:
		return m.removeDirectory(c)
	case *ModifyPermissions:
		return m.modifyPermissions(c)
	case *SetQuota:
		return m.setQuota(c)
	case *SetLimits:
		return m.setLimits(c)
	case *EndSession:
		return m.administerEndSession(c)
	case *RemoveSemaphore:
		return m.administerRemoveSemaphore(c)
	case *UpdateData:
		return m.updateData(c)
	case *SetHistory:
		return m.setHistory(c)
	case *CreateResource:
		return m.createResource(c)
	case *AlterResource:
		return m.alterResource(c)
	case *DropResource:
		return m.dropResource(c)
	case *AddUser, *SetPassword, *RemoveUser, *RotateSigningKey:
		return m.changeAccounts(c)
	}
	panic(fmt.Sprintf("coordination: unknown command %T", c))
}
