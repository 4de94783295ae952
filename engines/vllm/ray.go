package vllm

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
)

// rayPorts is how many ports of a node Ray gets; it has others at random, which
// collide with nobody. In order: the head's store, node manager, object manager,
// agent, metrics.
const rayPorts = 5

// rayReady is what ray start prints when its node is up.
const rayReady = `Ray runtime started`

// rayGrace is more than the 30 seconds that a node of Ray drains.
const rayGrace = 40 * time.Second

// rayLaunch is a rank of a replica that Ray joins. Rank 0 runs the head beside
// vLLM; the others run a node of Ray, in which the leader starts its workers.
//
// Nothing waits for the other nodes before vLLM starts: it asks Ray for all
// cards at once and waits half an hour for them itself, saying so in its log. A
// node whose head is not there yet tries again by itself for minutes.
func rayLaunch(s engines.Shard) engines.Launch {
	node := rayNode(s)
	if s.Rank == 0 {
		l := serveLaunch(s)
		l.Engine.Env["RAY_ADDRESS"] = rayAddress(s)
		l.Engine.Unset = slices.DeleteFunc(l.Engine.Unset, func(name string) bool { return name == "RAY_ADDRESS" })
		l.Sidecars = []engines.Sidecar{{
			Name: "ray", Command: node,
			Ready: engines.Readiness{Log: rayReady, Timeout: 3 * time.Minute},
			Stop:  engines.Stop{Signal: engines.SignalTerm, Grace: rayGrace},
			Logs:  rayRules(),
		}}
		return l
	}
	return engines.Launch{
		Engine: node,
		Ready:  engines.Readiness{Log: rayReady, Timeout: cmp.Or(s.Profile.LoadTimeout, launch.LoadTimeout)},
		Stop:   engines.Stop{Signal: engines.SignalTerm, Grace: cmp.Or(s.Profile.StopGrace, rayGrace)},
		Logs:   rayRules(),
	}
}

func rayAddress(s engines.Shard) string {
	return net.JoinHostPort(s.Leader, strconv.Itoa(leaderPort(s, portRay)))
}

// rayNode is the command that runs Ray on one node.
func rayNode(s engines.Shard) engines.Command {
	c := engines.Command{Executable: beside(s.Profile.Executable, "ray")}
	s.Keyed = false // Ray answers no requests
	c.Env, c.Unset = environment(s)
	maps.Copy(c.Env, map[string]string{"RAY_NUM_REDIS_GET_RETRIES": "60", "RAY_USAGE_STATS_ENABLED": "0"})

	first := s.Ports[portRay]
	var a engines.Args
	a.Add("start", "--block", "--disable-usage-stats", "--node-ip-address", s.Address)
	if s.Rank == 0 {
		a.Add("--head", "--include-dashboard", "false")
		a.Number("--port", first)
	} else {
		a.Add("--address", rayAddress(s))
	}
	a.Number("--num-gpus", len(s.Cards))
	a.Number("--node-manager-port", first+1)
	a.Number("--object-manager-port", first+2)
	a.Number("--dashboard-agent-listen-port", first+3)
	a.Number("--metrics-export-port", first+4)
	a.Add("--min-worker-port", "0", "--max-worker-port", "0")
	c.Args = a
	return c
}

// rayRules say what the lines of ray start mean.
func rayRules() []engines.LogRule {
	return append([]engines.LogRule{
		{Match: rayReady, Phase: engines.PhaseListening},
		{Match: `Failed to connect to GCS at address (\S+)`, Phase: engines.PhaseRendezvous, Reason: "the head of Ray at $1 does not answer yet"},
		{
			Match: `Ray cluster at \S+ .*version|Version mismatch`, Phase: engines.PhaseFailed,
			Reason: "the nodes have different versions of Ray or Python", Advice: "install the same versions on all nodes",
		},
		{
			Match: `Some Ray subprocesses exited unexpectedly`, Phase: engines.PhaseFailed,
			Reason: "a part of Ray died on this node", Advice: "read the files in /tmp/ray/session_latest/logs on the node",
		},
		{Match: `received SIGTERM\. Draining`, Phase: engines.PhaseStopping},
	}, launch.PythonFaults()...)
}
