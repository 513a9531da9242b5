package server

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	return c
}

// ended waits until the server has closed a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection is still open after %v", waitLimit)
	}
}

// TestUnauthenticatedConnectionsKeepNobodyOut: however many silent connections there are, a
// client with a token connects, and open sessions go on.
func TestUnauthenticatedConnectionsKeepNobodyOut(t *testing.T) {
	base := listen(t, newServer(t), HTTP{SSE: true})
	endpoint := openStream(t, t.Context(), base)
	first := dial(t, base)
	for range 2 * maxUnauthenticated {
		dial(t, base)
	}
	ended(t, first)
	if resp, body := post(t, base+endpoint, ping); resp.StatusCode != http.StatusAccepted {
		t.Errorf("a message to a stream that was open before: %s: %s", resp.Status, body)
	}
	connect(t, base+"/mcp")
}

// TestManyConnectionsAtOnceAreServed: hundreds of clients that connect before the first sends a
// request are all answered.
func TestManyConnectionsAtOnceAreServed(t *testing.T) {
	base := listen(t, newServer(t), HTTP{MaxRate: 10_000})
	var conns []net.Conn
	for range 300 {
		conns = append(conns, dial(t, base))
	}
	for i, c := range conns {
		req, err := http.NewRequest("GET", base+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+testToken)
		if err := req.Write(c); err != nil {
			t.Fatalf("number %d: %v", i, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("number %d: %+v, %v", i, resp, err)
		}
	}
}

// TestAuthenticatedConnectionsAreLimited: closed connections do not count.
func TestAuthenticatedConnectionsAreLimited(t *testing.T) {
	base := listen(t, newServer(t), HTTP{SSE: true, MaxConns: 2})
	// A closed connection counts until the server has noticed.
	for range 5 {
		await(t, func() bool {
			resp, _ := post(t, base+"/mcp", initialize(1, "2025-11-25"))
			return resp.StatusCode == http.StatusOK
		})
	}
	ctx, hangUp := context.WithCancel(t.Context())
	for range 2 {
		await(t, func() bool {
			resp := getStream(t, ctx, base)
			if resp.StatusCode != http.StatusOK {
				resp.Body.Close()
			}
			return resp.StatusCode == http.StatusOK
		})
	}
	if resp, body := post(t, base+"/mcp", initialize(1, "2025-11-25")); resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Errorf("the third connection: %s: %s", resp.Status, body)
	}
	hangUp()
	await(t, func() bool {
		resp, _ := post(t, base+"/mcp", initialize(1, "2025-11-25"))
		return resp.StatusCode == http.StatusOK
	})
}

// TestSlowRequestsAreCut: a connection whose request takes too long is closed. The test only
// shortens the timeouts.
func TestSlowRequestsAreCut(t *testing.T) {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	d := newServer(t).newHandler(ln, HTTP{Tokens: twoTokens})
	srv := d.httpServer(t.Context(), nil)
	if srv.ReadHeaderTimeout != headerTimeout || srv.IdleTimeout != keepAlive {
		t.Errorf("timeouts: %v, %v", srv.ReadHeaderTimeout, srv.IdleTimeout)
	}
	srv.ReadHeaderTimeout, srv.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond
	var wg sync.WaitGroup
	wg.Go(func() { srv.Serve(d.limiter) })
	defer wg.Wait()
	defer srv.Close()
	for name, begin := range map[string]string{
		"nothing":       "",
		"half a header": "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
		"half a body":   "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
		"idle":          "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, ln.Addr().String())
			io.WriteString(c, begin)
			ended(t, c)
		})
	}
	d.limiter.mu.Lock()
	defer d.limiter.mu.Unlock()
	if len(d.limiter.unauthenticated) > 1 || d.limiter.authenticated != 0 { // the last one may still be closing
		t.Errorf("%d unauthenticated and %d authenticated connections are left", len(d.limiter.unauthenticated), d.limiter.authenticated)
	}
}

// TestTooLargeBodyIsReadBeforeItIsRefused: clients that read the reply only after they sent the
// whole body still get the reason.
func TestTooLargeBodyIsReadBeforeItIsRefused(t *testing.T) {
	base := listen(t, newServer(t), HTTP{})
	c := dial(t, base)
	const size = 3 * maxBody
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", testToken, size)
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%v, %v", resp, err)
	}
}

// certificate makes one for 127.0.0.1, signed by itself.
func certificate(t *testing.T, dir string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// TestTLSServesARenewedCertificate: HTTPS has the same checks, and uses a renewed certificate
// without a restart.
func TestTLSServesARenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key, pool := certificate(t, dir)
	base := listen(t, newServer(t), HTTP{Listen: "0.0.0.0:0", Cert: cert, Key: key})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "https://"))
	url := "https://127.0.0.1:" + port
	ask := func(pool *x509.CertPool, header ...string) (*http.Response, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/mcp", strings.NewReader(initialize(1, "2025-11-25")))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+testToken)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	if resp, err := ask(pool); err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.TLS.Version < tls.VersionTLS12 {
		t.Errorf("%+v, %v", resp, err)
	}
	for header, want := range map[[2]string]int{
		{"Authorization", "Bearer x"}:               http.StatusUnauthorized,
		{"Origin", "https://evil.example"}:          http.StatusForbidden,
		{"Origin", "http://127.0.0.1:" + port}:      http.StatusForbidden,
		{"Origin", url}:                             http.StatusOK,
		{"Content-Type", "text/plain"}:              http.StatusUnsupportedMediaType,
		{"Content-Type", "application/json; q=0.5"}: http.StatusOK,
	} {
		if resp, err := ask(pool, header[0], header[1]); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %+v, %v, want %d", header, resp, err, want)
		}
	}
	resp, _, err := trySend(t.Context(), "POST", "http://127.0.0.1:"+port+"/mcp", ping)
	if err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %s", resp.Status)
	}
	_, _, renewed := certificate(t, dir)
	if resp, err := ask(renewed); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("with the renewed certificate: %+v, %v", resp, err)
	}
	os.Remove(key)
	if err := newServer(t).ListenAndServe(t.Context(), HTTP{Cert: cert, Key: key, Tokens: twoTokens}); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("without a key: %v", err)
	}
}

// TestLogHasNoToken: a wrong token may be a right one with a typing error, or that of another
// server.
func TestLogHasNoToken(t *testing.T) {
	log := new(record)
	s := newServer(t)
	s.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(t.Context())
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		served <- s.ListenAndServe(ctx, HTTP{Listen: "127.0.0.1:0", Tokens: twoTokens, Ready: func(addr net.Addr) { ready <- "http://" + addr.String() }})
	}()
	url := <-ready + "/mcp"
	connect(t, url, bearing("alice")...)
	post(t, url, ping, "Authorization", "Bearer a token of alice'") // a typing error
	post(t, url, "nonsense", bearing("bob")...)
	cancel()
	<-served
	if text := log.String(); !strings.Contains(text, "status=401") || !strings.Contains(text, "client=bob") || strings.Contains(text, "a token of") {
		t.Errorf("the log:\n%s", text)
	}
}
