package scheme

import "github.com/coordd/coordd/scheme/outcome"

// These carry out at once what the operations of the same names judge.

func carryOut(step Step, answer outcome.Outcome) outcome.Outcome {
	if step != nil {
		step()
	}
	return answer
}

func (t *Tree) makeDirectory(path Path, owner string, created Stamp) outcome.Outcome {
	return carryOut(t.MakeDirectory(path, owner, created))
}

func (t *Tree) createNode(path Path, node NewNode) (created bool, answer outcome.Outcome) {
	step, answer := t.CreateNode(path, node)
	return step != nil, carryOut(step, answer)
}

func (t *Tree) dropNode(path Path) (NodeID, outcome.Outcome) {
	id, step, answer := t.DropNode(path)
	return id, carryOut(step, answer)
}

func (t *Tree) removeDirectory(path Path) outcome.Outcome { return carryOut(t.RemoveDirectory(path)) }

func (t *Tree) modifyPermissions(path Path, change PermissionsChange) outcome.Outcome {
	return carryOut(t.ModifyPermissions(path, change))
}
