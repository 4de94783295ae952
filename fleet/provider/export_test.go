package provider

// ParseModels is for fuzzing.
var ParseModels = parseModels //nolint:gochecknoglobals // for tests
