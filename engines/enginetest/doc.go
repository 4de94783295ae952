// Package enginetest is the conformance suite of engine adapters. One line in
// an adapter's test holds it to everything that [engines.Adapter] promises:
//
//	func TestAdapter(t *testing.T) { enginetest.Run(t, vllm.Adapter{}) }
//
// Nothing is installed and no engine is started: the suite asks the adapter
// for launches and judges them, and starts and stops some with stand-ins for
// their programs. Beside the test, in testdata, stands what the
// author knows of the engine. All of it is optional but for one profile:
//
//	profiles/NAME.yaml    a profile, and under "shard" where it is to run
//	launch/NAME.golden    the launch of that profile, to be read by people
//	invalid/NAME.yaml     a profile that cannot run
//	invalid/NAME.want     its faults, one a line
//	metrics/VERSION.txt   a metrics page of that version of the engine
//	metrics/VERSION.want  the load that the page tells
//	help/VERSION.txt      the help text of that version, for the first check
//	help/CHECK/VERSION.txt  and for the check of that name
//
// Golden and want files are written by the suite: run the test with -enginetest.update,
// and read the difference. A profile's file is an [engines.Profile] with one
// key more:
//
//	engine: vllm
//	model: /models/qwen3-32b
//	served_names: [qwen3-32b]
//	ranks: 2
//	tensor_parallel: 16
//	shard:              # all optional
//	  ranks: [0, 1]     # those to launch; all of them
//	  version: 0.12.0   # what the engine says it is; not known
//	  keyed: true       # the engine asks for a key; it does not
//	  vendor: amd       # of the cards; nvidia
//	  uuids: true       # cards have lasting names; they do not
//	  first_card: 4     # the number of the rank's first card; 0
//	  bind: 0.0.0.0     # where HTTP listens; the node's address
//	  interface: eth1   # between nodes; left to the engine
//	  hcas: [mlx5_0]    # its InfiniBand adapters; none
//
// Nodes have the addresses 10.0.0.1 (rank 0), 10.0.0.2 and so on.
package enginetest
