package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Keys makes, shows and ends keys. Its methods answer as KeyService's of that
// name: see the protocol. Errors have a class of this package's, or are faults.
// None may hold the text of a key or a link: it is logged, or told to the caller. Methods
// must not keep requests, and may be called concurrently. The handler has seen to
// it that IDs and pages are within bounds and that no field is unknown.
type Keys interface {
	CreateKey(ctx context.Context, req *apipb.CreateKeyRequest) (*apipb.CreateKeyResponse, error)
	ListKeys(ctx context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error)
	GetKey(ctx context.Context, req *apipb.GetKeyRequest) (*apipb.GetKeyResponse, error)
	UpdateKey(ctx context.Context, req *apipb.UpdateKeyRequest) (*apipb.UpdateKeyResponse, error)
	RevokeKey(ctx context.Context, req *apipb.RevokeKeyRequest) (*apipb.RevokeKeyResponse, error)
	RotateKey(ctx context.Context, req *apipb.RotateKeyRequest) (*apipb.RotateKeyResponse, error)
	CreateKeyLink(ctx context.Context, req *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error)
	RevokeKeyLink(ctx context.Context, req *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error)
	DescribeStore(ctx context.Context, req *apipb.DescribeStoreRequest) (*apipb.DescribeStoreResponse, error)
}

const (
	// MaxPage is the most that a page of a list holds, and how much it holds where
	// nothing is said.
	MaxPage = 500
	// maxActorBytes bounds who asks.
	maxActorBytes = 200
	// maxIDBytes bounds the ID of a key or a link.
	maxIDBytes = 64
	// maxLinkLife bounds how long a link can be opened.
	maxLinkLife = 30 * 24 * time.Hour
)

// errNoKeys is answered by a server that has none.
var errNoKeys = errors.New("this server keeps no keys: auth.enabled is false in its configuration, or it has no store")

// keys is KeyService.
type keys struct{ *service }

// checked calls a method that is there, with a request that passes its checks.
func checked[Q, A proto.Message](ctx context.Context, s *service, method string, missing error, req Q, call func(context.Context, Q) (A, error), checks ...error) (A, error) {
	var none A
	err := missing
	if err == nil {
		err = errors.Join(append(checks, known(req.ProtoReflect()))...)
		if err != nil {
			err = Invalid(err)
		}
	}
	if err == nil {
		var answer A
		if answer, err = call(ctx, req); err == nil {
			return answer, nil
		}
	}
	return none, s.failure(ctx, method, err)
}

// missing is why a service cannot answer; nil if it can.
func missing(there bool, why error) error {
	if there {
		return nil
	}
	return Precondition(why)
}

// known refuses a message with a field that this version does not know: one of a
// newer client, which must not be answered as if it were not there. JSON is
// checked where it is read.
func known(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%s has a field that this server does not know; it is older than who asks", m.Descriptor().Name())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Message() != nil && !f.IsMap() && !f.IsList() {
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}

func goodID(field, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty; want the ID of a key, such as key_abcdefghijklmnopqrst", field)
	case len(id) > maxIDBytes || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= utf8.RuneSelf }):
		return fmt.Errorf("%s is no ID of a key; want such as key_abcdefghijklmnopqrst", field)
	}
	return nil
}

func goodLinkID(id string) error {
	if !strings.HasPrefix(id, "link_") || goodID("id", id) != nil {
		return errors.New("id is no ID of a link; want such as link_abcdefghijklmnopqrst, which was told when it was made")
	}
	return nil
}

// goodLife checks how long a link can be opened; absent is good.
func goodLife(d *durationpb.Duration) error {
	if d == nil {
		return nil
	}
	if err := d.CheckValid(); err != nil {
		return fmt.Errorf("life: %w", err)
	}
	if life := d.AsDuration(); life < time.Second || life > maxLinkLife {
		return fmt.Errorf("life: %v; want 1s to %d days", life, maxLinkLife/(24*time.Hour))
	}
	return nil
}

func goodActor(actor string) error {
	if len(actor) > maxActorBytes || !utf8.ValidString(actor) || strings.ContainsFunc(actor, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("actor: want at most %d bytes of printable text, such as cli:root@host", maxActorBytes)
	}
	return nil
}

func goodPage(token string, size uint32) error {
	switch {
	case size > MaxPage:
		return fmt.Errorf("page_size: %d; want at most %d", size, MaxPage)
	case len(token) > maxTextBytes:
		return errors.New("page_token is none that was given out")
	}
	return nil
}

// CreateKey implements apipb.KeyServiceHandler.
func (s keys) CreateKey(ctx context.Context, req *apipb.CreateKeyRequest) (*apipb.CreateKeyResponse, error) {
	return checked(ctx, s.service, "CreateKey", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.CreateKeyRequest) (*apipb.CreateKeyResponse, error) {
			return s.deps.Keys.CreateKey(ctx, req)
		}, goodActor(req.GetActor()))
}

// ListKeys implements apipb.KeyServiceHandler.
func (s keys) ListKeys(ctx context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error) {
	return checked(ctx, s.service, "ListKeys", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error) {
			return s.deps.Keys.ListKeys(ctx, req)
		}, goodPage(req.GetPageToken(), req.GetPageSize()))
}

// GetKey implements apipb.KeyServiceHandler.
func (s keys) GetKey(ctx context.Context, req *apipb.GetKeyRequest) (*apipb.GetKeyResponse, error) {
	return checked(ctx, s.service, "GetKey", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.GetKeyRequest) (*apipb.GetKeyResponse, error) {
			return s.deps.Keys.GetKey(ctx, req)
		}, goodID("id", req.GetId()))
}

// UpdateKey implements apipb.KeyServiceHandler.
func (s keys) UpdateKey(ctx context.Context, req *apipb.UpdateKeyRequest) (*apipb.UpdateKeyResponse, error) {
	return checked(ctx, s.service, "UpdateKey", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.UpdateKeyRequest) (*apipb.UpdateKeyResponse, error) {
			return s.deps.Keys.UpdateKey(ctx, req)
		}, goodID("id", req.GetId()), goodActor(req.GetActor()))
}

// RevokeKey implements apipb.KeyServiceHandler.
func (s keys) RevokeKey(ctx context.Context, req *apipb.RevokeKeyRequest) (*apipb.RevokeKeyResponse, error) {
	return checked(ctx, s.service, "RevokeKey", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.RevokeKeyRequest) (*apipb.RevokeKeyResponse, error) {
			return s.deps.Keys.RevokeKey(ctx, req)
		}, goodID("id", req.GetId()), goodActor(req.GetActor()))
}

// RotateKey implements apipb.KeyServiceHandler.
func (s keys) RotateKey(ctx context.Context, req *apipb.RotateKeyRequest) (*apipb.RotateKeyResponse, error) {
	var overlap error
	if o := req.GetOverlap(); o != nil {
		if err := o.CheckValid(); err != nil {
			overlap = fmt.Errorf("overlap: %w", err)
		}
	}
	return checked(ctx, s.service, "RotateKey", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.RotateKeyRequest) (*apipb.RotateKeyResponse, error) {
			return s.deps.Keys.RotateKey(ctx, req)
		}, goodID("id", req.GetId()), goodActor(req.GetActor()), overlap)
}

// CreateKeyLink implements apipb.KeyServiceHandler.
func (s keys) CreateKeyLink(ctx context.Context, req *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error) {
	var key error
	if req.GetKey() == nil {
		key = errors.New("key is absent; want what the key of the link shall be, {} for one without bounds")
	}
	return checked(ctx, s.service, "CreateKeyLink", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error) {
			return s.deps.Keys.CreateKeyLink(ctx, req)
		}, key, goodActor(req.GetKey().GetActor()), goodLife(req.GetLife()))
}

// RevokeKeyLink implements apipb.KeyServiceHandler.
func (s keys) RevokeKeyLink(ctx context.Context, req *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error) {
	return checked(ctx, s.service, "RevokeKeyLink", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error) {
			return s.deps.Keys.RevokeKeyLink(ctx, req)
		}, goodLinkID(req.GetId()), goodActor(req.GetActor()))
}

// DescribeStore implements apipb.KeyServiceHandler.
func (s keys) DescribeStore(ctx context.Context, req *apipb.DescribeStoreRequest) (*apipb.DescribeStoreResponse, error) {
	return checked(ctx, s.service, "DescribeStore", missing(s.deps.Keys != nil, errNoKeys), req,
		func(ctx context.Context, req *apipb.DescribeStoreRequest) (*apipb.DescribeStoreResponse, error) {
			return s.deps.Keys.DescribeStore(ctx, req)
		})
}
