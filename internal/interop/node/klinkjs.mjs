// node klinkjs.mjs CLIENT WS-URL TOKEN: klink.js itself, in Node with the package ws as its WebSocket.
import { pathToFileURL } from 'node:url'
import WebSocket from 'ws'
import { Queue, check } from './proto.mjs'

globalThis.WebSocket = WebSocket
const [clientFile, url, token] = process.argv.slice(2)
const { Klink, backoff } = await import(pathToFileURL(clientFile))

for (let i = 0; i < 10_000; i++) {
  const d = backoff(i % 30)
  check(d >= 100 && d <= 60_000, `backoff ${d}`)
}
let tokens = 0
const client = new Klink({ urls: [url], device: 'klinkjs', tags: ['room:k'], token: async () => { tokens++; return token } })
const events = new Queue()
for (const type of ['connected', 'disconnected', 'push', 'tags', 'gap', 'closed']) {
  client.addEventListener(type, (e) => events.put({ type, ...e.detail }))
}
await client.connect()
check((await events.take('connected')).type === 'connected', 'connected')
await client.subscribe('room:k2')
const p = await client.publish('room:k2', { n: 1 })
check(p.matched === 1 && p.enqueued === 1, `publish says ${JSON.stringify(p)}`)
const push = await events.take('push')
check(push.type === 'push' && push.tag === 'room:k2' && push.value.n === 1, `push is ${JSON.stringify(push)}`)
check(JSON.stringify(await client.request('echo', '', { deep: [1] })) === '{"deep":[1]}', 'echo')
const denied = await client.subscribe('secret').catch((e) => e)
check(denied.code === 'FORBIDDEN', `subscribe to a tag that is not granted: ${denied}`)
const unknown = await client.request('bank', 'x', 1).catch((e) => e)
check(unknown.code === 'FORBIDDEN' || unknown.code === 'UNKNOWN_SERVICE', `an unknown service: ${unknown}`)

// A second client of the same device takes over: terminal, no ping-pong.
const second = new Klink({ urls: [url], device: 'klinkjs', token: async () => token })
await second.connect()
const end = await events.take('closed')
check(end.type === 'closed' && end.code === 4503, `the first ends with ${JSON.stringify(end)}`)
check(tokens === 1, `${tokens} tokens were asked for`)
second.close()

const bad = new Klink({ urls: [url], device: 'bad', token: async () => 'nonsense' })
const refused = new Queue()
bad.addEventListener('disconnected', (e) => refused.put(e.detail))
bad.addEventListener('closed', (e) => refused.put(e.detail))
const failed = await bad.connect().catch((e) => e)
check(failed.code === 4501, `a bad token ends with ${failed}`)
console.log('ok')
process.exit(0)
