package control

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// registered takes the Hello of a stream and answers it. The error is for the
// agent, and was logged.
func (p *Plane) registered(st *stream) error {
	if err := st.wire.control.SetReadDeadline(time.Now().Add(p.cfg.HelloTimeout)); err != nil {
		return p.refused(st.wire, "", refuse(reasonInternal, fmt.Errorf("the server's streams have no deadlines: %w", err)))
	}
	reg, err := p.hello(st)
	if err != nil {
		return p.refused(st.wire, "", err)
	}
	mandate := p.deps.Authority.Mandate()
	if err := p.acceptable(st, reg, mandate); err != nil {
		return p.refused(st.wire, reg.id, err)
	}
	if err := p.enroll(st, reg); err != nil {
		return p.refused(st.wire, reg.id, err)
	}
	if err := st.wire.control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return st.send(p.welcome(mandate, time.Now()))
}

// hello waits for the first message and checks it.
func (p *Plane) hello(st *stream) (*registration, error) {
	msg, err := st.conn.Receive()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return nil, refuse(reasonSlow, fmt.Errorf("no Hello came within %v", p.cfg.HelloTimeout))
	case err != nil:
		return nil, refuse(reasonBroken, err)
	case msg.GetHello() == nil:
		return nil, refuse(reasonInvalid, invalid("the first message is no Hello"))
	}
	reg, err := p.cfg.register(msg.GetHello(), st.wire.remote)
	if err != nil {
		return nil, refuse(reasonInvalid, err)
	}
	if err := reachable(reg.address, st.wire); err != nil {
		return nil, refuse(reasonInvalid, err)
	}
	p.alike.Share(reg.inventory)
	if h := msg.GetHello(); h.GetProtocolLeast() > protocol || h.GetProtocolMost() < protocol {
		return nil, refuse(reasonProtocol, fmt.Errorf("the agent speaks versions %d to %d of the protocol, and this control plane speaks %d; upgrade the older of the two",
			h.GetProtocolLeast(), h.GetProtocolMost(), protocol))
	}
	return reg, nil
}

// acceptable checks who the agent is, and whether it belongs here.
func (p *Plane) acceptable(st *stream, reg *registration, m Mandate) error {
	if err := p.proves(st.wire, reg.id); err != nil {
		return err
	}
	switch {
	case m.Level == Standby:
		return refuse(reasonStandby, errStandby)
	case reg.cluster != "" && reg.cluster != m.Cluster:
		return refuse(reasonCluster, fmt.Errorf("the node belongs to cluster %q, and this is the control plane of cluster %q; to move the node, stop its engines and remove its agent's state directory", reg.cluster, m.Cluster))
	case reg.term > m.Term:
		p.deps.Authority.Outranked(reg.id, reg.term)
		return refuse(reasonOutranked, fmt.Errorf("the node has heard of term %d, and this control plane has term %d; try again, or another address", reg.term, m.Term))
	}
	return nil
}

// enroll enters the node, and ends the stream that this one takes over from.
func (p *Plane) enroll(st *stream, reg *registration) error {
	now := time.Now()
	p.mu.Lock()
	if p.ending || p.level == Standby { // since it was let in
		p.mu.Unlock()
		return refuse(reasonEnding, errEnding)
	}
	old, known := p.fleet.nodes[reg.id]
	// One that has heard of the cluster is not new, even if it comes before the
	// journal was read.
	was, comesBack := "new", known || reg.cluster != ""
	switch {
	case known:
		was = old.state.String()
	case comesBack:
		was = "not known"
	}
	n, over, err := p.fleet.register(now, reg, st)
	if err != nil {
		p.mu.Unlock()
		if errors.Is(err, errClash) {
			return refuse(reasonClash, err)
		}
		return refuse(reasonFull, err)
	}
	st.node = n
	if p.looked != nil && reg.looks {
		p.keepWanted(n)
		st.lookFor(p.looked.message)
	}
	p.unregistered--
	p.unsaved[reg.id] = struct{}{}
	p.wakeCalls(reg.id)
	p.publish()
	skewed := n.skewedNow(p.cfg.ClockSkewWarn)
	strange := n.strange(slices.Collect(maps.Keys(n.addresses.strange))...)
	p.mu.Unlock()

	p.warnStrange(reg.id, strange)
	if over != nil {
		over.stop(connect.NewError(connect.CodeAborted, fmt.Errorf("a newer stream of node %s took over, from %s", reg.id, reg.remote)))
	}
	p.metrics.registered(comesBack, over != nil)
	p.log.Info("node registered", "node", reg.id, "remote", reg.remote, "agent", reg.version, "was", was, "shards", len(reg.shards), "took_over", over != nil)
	p.warnSkew(n, skewed)
	return nil
}

// received takes one message of a registered stream. An error is for the agent
// and ends the stream.
func (p *Plane) received(st *stream, msg *message) error {
	now := time.Now()
	st.node.hear(p.base, now)
	beat, err := msg.heartbeat()
	switch {
	case err != nil:
		err = invalid("%w", err)
	case beat != nil:
		err = p.heartbeat(st, beat, now)
		p.metrics.heartbeat(time.Since(now))
	default:
		err = p.other(st, &msg.ConnectRequest, now)
	}
	if err != nil {
		return p.refused(st.wire, st.node.id, refuse(reasonInvalid, err))
	}
	return nil
}

// other takes a message that is no heartbeat.
func (p *Plane) other(st *stream, msg *fleetpb.ConnectRequest, now time.Time) (err error) {
	switch m := msg.GetMessage().(type) {
	case *fleetpb.ConnectRequest_Status:
		err = p.status(st, m.Status, now)
	case *fleetpb.ConnectRequest_Answer:
		err = p.answered(st, m.Answer, now)
	case *fleetpb.ConnectRequest_Inventory:
		err = p.inventory(st, m.Inventory, now)
	case *fleetpb.ConnectRequest_Reach:
		err = p.reach(st, m.Reach, now)
	case *fleetpb.ConnectRequest_Weights:
		err = p.weights(st, m.Weights, now)
	case *fleetpb.ConnectRequest_Goodbye:
		p.enter(st, now, func(n *node) {
			n.goodbye = cut("the agent ended: " + m.Goodbye.GetReason())
			p.fleet.changed(n, engines.ShardID{})
		})
	case *fleetpb.ConnectRequest_Hello:
		err = invalid("a second Hello")
	}
	// What a newer agent says beyond this is not known here, and harmless.
	return err
}

// enter does something to the stream's node, if the stream is still its newest.
func (p *Plane) enter(st *stream, now time.Time, do func(n *node)) {
	p.mu.Lock()
	n := st.node
	if n.stream != st {
		p.mu.Unlock()
		return
	}
	from := p.fleet.returned(n, now)
	do(n)
	p.publish()
	p.mu.Unlock()
	if from != Ready {
		p.logTransition(n.id, from, Ready, 0)
	}
}

func (p *Plane) heartbeat(st *stream, m *convert.Heartbeat, now time.Time) error {
	if len(m.Shards) > 2*p.cfg.MaxShardsPerNode {
		return invalid("heartbeat: %d shards; want at most %d (max_shards_per_node)", len(m.Shards), p.cfg.MaxShardsPerNode)
	}
	strangers := strangersOf(m.Strangers)
	beat := &fleetpb.Beat{Sequence: m.Sequence}
	skewed := skewSame
	p.enter(st, now, func(n *node) {
		n.skew = skewOf(m.At, now)
		skewed = n.skewedNow(p.cfg.ClockSkewWarn)
		beat.Resend = p.fleet.heartbeat(n, m.Sequence, m.State, strangers, m.Shards)
	})
	st.answer(beat)
	p.warnSkew(st.node, skewed)
	return nil
}

func (p *Plane) status(st *stream, m *fleetpb.ShardStatus, now time.Time) error {
	s, err := statusOf(m)
	if err != nil {
		return err
	}
	room := true
	var strange []strangeAddress
	p.enter(st, now, func(n *node) {
		before := n.addresses.strange[s.ID]
		room = p.fleet.status(n, s)
		if n.addresses.strange[s.ID] != before {
			strange = n.strange(s.ID)
		}
	})
	p.warnStrange(st.node.id, strange)
	if !room {
		p.metrics.dropped.Inc()
		p.log.Warn("shard is not shown: the node has too many", "node", st.node.id, "replica", s.ID.Replica, "rank", s.ID.Rank, "most", p.cfg.MaxShardsPerNode)
	}
	return nil
}

func (p *Plane) inventory(st *stream, m *fleetpb.Inventory, now time.Time) error {
	inv, err := inventoryOf(m)
	if err != nil {
		return err
	}
	p.alike.Share(inv)
	p.amend(st, now, func(reg *registration) bool { reg.inventory = inv; return true })
	return nil
}

func (p *Plane) reach(st *stream, m *fleetpb.Reach, now time.Time) error {
	ports, err := portsOf(m.GetPorts().GetFirst(), m.GetPorts().GetLast())
	if err != nil {
		return err
	}
	address := m.GetAddress()
	if len(address) > mostName {
		return invalid("reach: address has %d bytes; want at most %d", len(address), mostName)
	}
	if err := reachable(address, st.wire); err != nil {
		return err
	}
	moved := false
	p.amend(st, now, func(reg *registration) bool {
		moved = reg.address != address || reg.ports != ports
		reg.address, reg.ports = address, ports
		return moved
	})
	if moved {
		p.log.Info("node is reached elsewhere; what runs there stays where it is", "node", st.node.id, "address", address, "port_first", ports.First, "port_last", ports.Last)
	}
	return nil
}

// amend changes what the stream's node said of itself when it registered. Do reports
// whether it has changed something.
func (p *Plane) amend(st *stream, now time.Time, do func(reg *registration) bool) {
	p.enter(st, now, func(n *node) {
		reg := *n.reg
		if !do(&reg) {
			return
		}
		n.reg = &reg
		n.addresses.tell(reg.address)
		p.fleet.readdress(n)
		p.unsaved[reg.id] = struct{}{}
		p.fleet.changed(n, engines.ShardID{})
	})
}

// skewChange is whether a node's clock has gone wrong, or right.
type skewChange uint8

const (
	skewSame skewChange = iota
	skewBegun
	skewOver
)

// skewedNow compares the node's clock with what is worth a warning.
func (n *node) skewedNow(limit time.Duration) skewChange {
	skew, known := n.skew.Get()
	wrong := known && (skew > limit || skew < -limit)
	if wrong == n.skewed {
		return skewSame
	}
	n.skewed = wrong
	if wrong {
		return skewBegun
	}
	return skewOver
}

func (p *Plane) warnSkew(n *node, change skewChange) {
	if change == skewSame {
		return
	}
	p.mu.Lock()
	skew := n.skew.Or(0)
	p.mu.Unlock()
	if change == skewOver {
		p.log.Info("node's clock is right again", "node", n.id, "ahead", skew)
		return
	}
	p.log.Warn("node's clock is wrong; nothing is decided by it, but its times and certificates are: check its NTP", "node", n.id, "ahead", skew)
}
