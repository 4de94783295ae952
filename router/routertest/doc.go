// Package routertest has the five hooks of package router, and a catalog, as
// small structs with behaviour, for tests of what uses a router.
//
// All of them may be used concurrently, and their zero values let everything
// pass and count it.
package routertest
