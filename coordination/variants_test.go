package coordination

import (
	"fmt"
	"reflect"
)

// variants returns a row and copies of it that differ in one field each, however deep.
func variants(row Row) []Row {
	found := []Row{row}
	switch row.(type) {
	case MachineRow, DeletedRow:
		return found
	}
	original := reflect.ValueOf(row)
	visit(original, nil, func(path []int) {
		changed := reflect.New(original.Type()).Elem()
		changed.Set(original)
		change(follow(changed, path))
		found = append(found, changed.Interface().(Row))
	})
	return found
}

// visit calls f for every field that holds no further fields. A path leads through fields and elements.
func visit(v reflect.Value, path []int, f func([]int)) {
	inner := 0
	switch {
	case v.Kind() == reflect.Struct:
		inner = v.NumField()
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		inner = v.Len()
	default:
		f(path)
		return
	}
	for i := range inner {
		next := append(append([]int{}, path...), i)
		if v.Kind() == reflect.Struct {
			visit(v.Field(i), next, f)
		} else {
			visit(v.Index(i), next, f)
		}
	}
}

// follow goes to the end of a path; slices on the way are copied, so that the original keeps its own.
func follow(v reflect.Value, path []int) reflect.Value {
	for _, i := range path {
		if v.Kind() == reflect.Struct {
			v = v.Field(i)
			continue
		}
		copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(copied, v)
		v.Set(copied)
		v = v.Index(i)
	}
	return v
}

func change(v reflect.Value) {
	switch {
	case v.CanUint():
		v.SetUint(v.Uint() + 100)
	case v.CanInt():
		v.SetInt(v.Int() + 100)
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "+")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Slice:
		v.SetBytes([]byte("changed"))
	default:
		panic(fmt.Sprintf("no way to change a %s", v.Type()))
	}
}
