package inspect

import (
	"context"

	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
	"github.com/coordd/coordd/server/adminpb"
	"github.com/coordd/coordd/server/calls"
	"github.com/coordd/coordd/server/group"
)

// maxSubjects bounds the subjects and the administrators of an answer about rights.
const maxSubjects = 1000

// Children implements adminpb.InspectServer.
func (s *Service) Children(ctx context.Context, r *adminpb.ChildrenRequest) (*adminpb.ChildrenResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	path := s.pathOr(r.GetPath())
	d, answer, err := group.ChildrenAfter(ctx, s.Group, caller, path, r.GetAfter())
	if err := described(ctx, answer, err); err != nil {
		return nil, err
	}
	response := &adminpb.ChildrenResponse{Path: path.String(), More: len(d.Children) == group.MaxInspectedRows}
	for _, child := range d.Children {
		response.Children = append(response.Children, &adminpb.Child{Name: child.Name,
			Node: child.Kind == scheme.CoordinationNode})
	}
	return response, nil
}

// pathOr returns the path of a request, or that of the database.
func (s *Service) pathOr(text string) scheme.Path {
	if text == "" {
		text = s.Database
	}
	return scheme.SplitLoose(text)
}

// described returns the refusal to describe a path. It does not reveal what else is there.
func described(ctx context.Context, answer outcome.Outcome, err error) error {
	switch {
	case err != nil:
		return calls.GRPCStatus(ctx, answer, err)
	case !answer.OK():
		return errUndescribed
	}
	return nil
}

// Rights implements adminpb.InspectServer.
func (s *Service) Rights(ctx context.Context, r *adminpb.RightsRequest) (*adminpb.RightsResponse, error) {
	ctx, cancel, caller, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	path := s.pathOr(r.GetPath())
	var subject scheme.Subject
	d, answer, err := s.Group.Describe(ctx, caller, path, func(m *coordination.Machine) (d group.Described) {
		d.Lineage, d.Outcome = m.Tree().EntryToDescribe(path)
		subject = m.Subject(caller)
		return d
	})
	if err := described(ctx, answer, err); err != nil {
		return nil, err
	}
	response := &adminpb.RightsResponse{Unenforced: !s.Enforced, Own: d.Lineage.Rights(subject).Names()}
	for i := range d.Lineage {
		if i == len(path) { // nothing can be given on what is above all paths
			break
		}
		response.Levels = append(response.Levels, &adminpb.Level{Path: path[:len(path)-i].String(),
			Interrupts: d.Lineage[i].InterruptInheritance})
	}
	addSubjects(response, d.Lineage)
	if s.administers(caller) {
		for _, user := range s.Group.Accounts().Users() {
			if user.Administrator && len(response.GetAdministrators()) < maxSubjects {
				response.Administrators = append(response.Administrators, user.Name)
			}
		}
	}
	return response, nil
}

// addSubjects adds the rights of the subjects that a lineage names, the owner's first.
func addSubjects(to *adminpb.RightsResponse, lineage scheme.Lineage) {
	known, access := make(map[string]*adminpb.SubjectRights), make(map[string]scheme.Access)
	of := func(subject string) *adminpb.SubjectRights {
		switch {
		case known[subject] != nil:
		case len(known) == maxSubjects:
			to.More = true
			return nil
		default:
			known[subject] = &adminpb.SubjectRights{Subject: subject}
			to.Subjects = append(to.Subjects, known[subject])
		}
		return known[subject]
	}
	if len(lineage) > 0 && lineage[0].Owner != "" {
		of(lineage[0].Owner).Owns = true
		access[lineage[0].Owner] = scheme.FullAccess
	}
	for _, given := range lineage.Given() {
		subject := of(given.Subject)
		if subject == nil {
			continue
		}
		comesTo := scheme.AccessOf(given.Name)
		access[given.Subject] |= comesTo
		subject.Given = append(subject.Given, &adminpb.GivenPermission{Permission: given.Name,
			Level: uint32(given.Level), Rights: comesTo.Names()})
	}
	for _, subject := range to.GetSubjects() {
		subject.Rights = access[subject.GetSubject()].Names()
	}
}
