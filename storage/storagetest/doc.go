// Package storagetest is the suite of tests that every [storage.Store] passes,
// one of your own too:
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, func(t *testing.T) storagetest.Open {
//			dsn := freshDatabase(t)
//			return func(t *testing.T) storage.Store { return open(t, dsn) }
//		})
//	}
//
// It tests what package storage promises of any store. How one opens, what it
// does while its database is away, and how its schema changes, each tests itself.
package storagetest
