package strictyaml

import (
	"reflect"
)

// Changed returns the paths of the keys in which two configurations of one type
// differ, in the order of the fields. Sections are entered; a list that differs
// is one path.
func Changed(a, b any) []string {
	return changed(reflect.ValueOf(a), reflect.ValueOf(b), "")
}

func changed(a, b reflect.Value, path string) []string {
	if a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil() {
		a, b = a.Elem(), b.Elem()
	}
	if !IsSection(a.Type()) {
		if reflect.DeepEqual(a.Interface(), b.Interface()) {
			return nil
		}
		return []string{path}
	}
	var out []string
	for _, f := range Fields(a.Type()) {
		out = append(out, changed(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index), join(path, f.Key))...)
	}
	return out
}
