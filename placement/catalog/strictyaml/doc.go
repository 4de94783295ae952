// Package strictyaml reads what an operator writes in YAML into a struct that
// code uses, says everything that is wrong with it at once, and writes such a
// struct as text again. A configuration file and the definition of a model that
// comes while a server runs are read alike.
//
//	defaults (the struct as passed in)
//	  <- file       YAML, one document; line and path of every key are kept
//	  <- variables  LLMGW_ROUTER__RETRIES=3, for keys the struct has
//	  -> koanf      decodes the result over the defaults
//	  -> Validate   its faults are mapped back to the lines that caused them
//
// The struct is the schema: a key is known if a field has it as its yaml tag.
// So a mistyped key is an error with its path, its line and the key that was
// probably meant, instead of a setting that silently does nothing. Wrong types,
// keys written twice, variables with a bad value and the struct's own
// validation are reported together, each as one [Fault].
//
// A variable that no key has is not an error, only worth a warning: in a
// cluster anything may be put in the environment, and a Kubernetes Service
// named llmgw puts LLMGW_PORT=tcp://… there.
package strictyaml
