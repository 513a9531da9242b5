package sandbox

import "context"

type traceKey struct{}

// WithTrace gives what is done for a call a name, so that what is logged of it
// in the server, in boxes and in runs can be found together.
func WithTrace(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, traceKey{}, id)
}

// Trace returns that name, "" where there is none.
func Trace(ctx context.Context) string {
	id, _ := ctx.Value(traceKey{}).(string)
	return id
}
