// Package enginetest starts Docker Engines for one test, which it can kill, restart and
// make hang, and which can map user ids or run without root.
//
// An Engine is a real dockerd with all of its files below one directory, in its own
// mount name space, network and control group. The network leads nowhere: its
// containers must ask for none. The engine has no image before Load, and shares nothing
// with the machine's own engine.
//
// A test of a fault:
//
//	e := enginetest.Start(t, enginetest.Config{})
//	e.Load(enginetest.Base(t, docker.DefaultImage), docker.DefaultImage)
//	l := docker.New(docker.Config{Host: e.Host, StateDir: t.TempDir(), CacheDir: t.TempDir()})
//	box, err := l.Launch(t.Context(), "one", sandbox.Spec{})
//	e.Pause() // or Kill, and Restart
//	_, err = l.Launch(t.Context(), "two", sandbox.Spec{}) // must fail in time
//	e.Resume()
//
// It needs Linux, root, and programs of the common packages of Docker and Debian. If
// one is missing the test is skipped with the reason, or fails if WARMBOX_REQUIRE names
// engine (rootless, for an engine without root). The caller uses an Engine from the
// goroutine of its test.
package enginetest
