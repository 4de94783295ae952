// Package catalog is the list of models that callers may name: what each is
// called, what else it answers to, which models stand in for it, and how its
// requests are routed.
//
// One type, [Model], serves the configuration file, the catalog and the
// management API, and its validation lives with it, so that a new field is
// written, checked and shown in one place. [New] checks a whole list and makes
// an immutable [Catalog] of it. A change makes a new Catalog that is swapped in
// by pointer: a request takes the pointer once and finishes against it, so it
// never sees half of a change.
//
// The catalog says which names exist. It does not know which endpoint serves
// them, whether one is ready, or which routing profiles there are: whoever puts
// the parts together checks those.
package catalog
