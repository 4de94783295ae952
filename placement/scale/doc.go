// Package scale decides how many replicas of a model run, between what has to and
// what may: it wakes a model that somebody asks for, lets what nobody uses sleep,
// starts another replica while those that run are full, and ends one when the others
// can do its work.
//
// A [Scaler] decides for one model. It is pure: it steps on what was measured, keeps
// no clock, and says of each decision why. Where replicas go, and what has to make
// room for them, is decided elsewhere.
package scale
