// Package enginetest starts Docker Engines of a test's own, which can be killed,
// restarted and made to hang, and which can map users or run without root.
//
// An Engine is a real dockerd with all that is its own below one directory, in a
// mount name space, a network and a control group of its own. The network leads
// nowhere: its containers must ask for none. It knows no image before one is loaded, and it
// shares nothing with the machine's own engine.
//
// A test of a fault reads so:
//
//	e := enginetest.Start(t, enginetest.Config{})
//	e.Load(enginetest.Base(t, docker.DefaultImage), docker.DefaultImage)
//	l := docker.New(docker.Config{Host: e.Host, StateDir: t.TempDir(), CacheDir: t.TempDir()})
//	box, err := l.Launch(t.Context(), "one", sandbox.Spec{})
//	e.Pause() // or Kill, and Restart
//	_, err = l.Launch(t.Context(), "two", sandbox.Spec{}) // is to fail in time
//	e.Resume()
//
// It needs Linux, root, and the programs of Docker's and Debian's usual packages.
// Where they are missing the test is skipped with the reason, or fails if
// WARMBOX_REQUIRE names engine (rootless, for an engine without root). The caller
// uses an Engine from its test's own goroutine.
package enginetest
