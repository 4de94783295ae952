// Package flagcheck holds the command that an adapter would start against the
// help text of the engine that is to run it. An engine renames and removes
// flags from one release to the next, and one unknown flag is an engine that
// does not start; its help text says so before, without a model and a GPU.
//
// [Parse] finds the flags that a text declares, whoever wrote the parser behind
// it: argparse, clap, click, typer, Go's flag package and cobra, llama.cpp. A
// flag that is only spoken of in a description is not declared. [Check] then
// names what a command has and the help has not. The package runs nothing; the
// package ask below it gets the texts from an executable.
package flagcheck
