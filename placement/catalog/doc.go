// Package catalog is the list of models that callers may name: what each is
// called, what else it answers to, which models stand in for it, how its requests
// are routed, what they cost, and how it is run.
//
// One type, [Model], serves the configuration file, the catalog, the store and
// the management API, and its validation lives with it, so that a new field is
// written, checked and shown in one place. [Parse] reads the text of models and
// [Format] writes it. [New] checks a whole list and makes an immutable [Catalog]
// of it; [Merge] says what of the models that were added later can stand beside
// the configuration's. A change makes a new Catalog that is swapped in by pointer:
// a request takes the pointer once and finishes against it, so it never sees half
// of a change.
//
// The catalog says which names exist. It does not know which endpoint serves
// them, whether one is ready, or which routing profiles there are: whoever puts
// the parts together checks those.
package catalog
