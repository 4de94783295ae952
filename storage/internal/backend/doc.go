// Package backend is what the stores do alike with the database behind them:
// what its errors mean to callers, the steps of its schema, and metrics.
package backend
