// Speaks to a server through an official TypeScript client, as hosts do:
//
//	node conversation.mjs sdk|client stdio COMMAND [ARGUMENT...]
//	node conversation.mjs sdk|client http|sse URL
//
// Over HTTP it shows the token in WARMBOX_TEST_TOKEN.
//
// "sdk" is the client of protocol versions up to 2025-11-25, "client" its
// successor, which finds out what the server speaks. It ends with an error
// where an answer is not what it should be.
import assert from 'node:assert/strict'

const [library, transport, ...target] = process.argv.slice(2)

const load = {
  sdk: async () => ({
    ...(await import('@modelcontextprotocol/sdk/client/index.js')),
    ...(await import('@modelcontextprotocol/sdk/client/stdio.js')),
    ...(await import('@modelcontextprotocol/sdk/client/sse.js')),
    ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
  }),
  client: async () => ({
    ...(await import('@modelcontextprotocol/client')),
    ...(await import('@modelcontextprotocol/client/stdio')),
  }),
}
const { Client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport } = await load[library]()

const withToken = { requestInit: { headers: { Authorization: `Bearer ${process.env.WARMBOX_TEST_TOKEN}` } } }
const transports = {
  stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1) }),
  http: () => new StreamableHTTPClientTransport(new URL(target[0]), withToken),
  sse: () => new SSEClientTransport(new URL(target[0]), withToken),
}
const client = new Client({ name: 'conversation', version: '1' }, { versionNegotiation: { mode: 'auto' } })
await client.connect(transports[transport]())

const call = async (name, args, options) => {
  const request = { name, arguments: args }
  const result = await (library === 'sdk' ? client.callTool(request, undefined, options) : client.callTool(request, options))
  assert.equal(result.content[0].type, 'text')
  assert.ok(result.structuredContent, 'a host may show its model only this')
  return { isError: result.isError ?? false, text: result.content[0].text, ...result.structuredContent }
}

assert.equal(client.getServerVersion().name, 'warmbox')
assert.match(client.getInstructions(), /logPath/)
const { tools } = await client.listTools()
assert.deepEqual(tools.map(tool => tool.name), ['start', 'exec', 'logs', 'input', 'list', 'stop'])

const ok = await call('exec', { cmd: 'echo hello' })
assert.equal(ok.stdout, 'hello\n')
assert.equal(ok.exitCode, 0)

const failing = await call('exec', { cmd: 'echo no >&2; exit 7' })
assert.equal(failing.isError, false)
assert.equal(failing.exitCode, 7)
assert.equal(failing.stderr, 'no\n')

const big = await call('exec', { cmd: 'seq 1 200000' })
assert.equal(big.truncated, true)
assert.ok(big.stdout.endsWith('\n200000\n'))
assert.ok(big.text.length < 16 << 10)
const found = await call('logs', { execId: big.execId, grep: '^100000$', context: 1 })
assert.equal(found.text, '99999- 99999\n100000: 100000\n100001- 100001\n')
const log = await client.readResource({ uri: `warmbox://logs/${big.execId}` })
assert.ok(log.contents[0].text.endsWith('\n200000\n'))

const wrong = await call('exec', { cmd: 'true', containerId: 'b-nosuch' })
assert.equal(wrong.isError, true)
assert.equal(wrong.code, 'BOX_NOT_FOUND')

const { id } = await call('start', {})
const aborter = new AbortController()
const cancelled = assert.rejects(
  call('exec', { containerId: id, cmd: 'echo $$ >pid; sleep 1000' }, { signal: aborter.signal }))
await call('exec', { containerId: id, cmd: 'until test -s pid; do sleep 0.01; done' })
aborter.abort()
await cancelled
const dead = await call('exec', { containerId: id, cmd: 'while kill -0 $(cat pid); do sleep 0.01; done 2>/dev/null; echo dead', timeoutSeconds: 20 })
assert.equal(dead.stdout, 'dead\n')

assert.equal((await call('stop', { containerId: id })).isError, false)
assert.equal((await call('exec', { containerId: id, cmd: 'true' })).code, 'BOX_GONE')

await client.close()
console.log('ok', client.getNegotiatedProtocolVersion?.() ?? '')
