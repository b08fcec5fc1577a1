// node klinkjs_time.mjs CLIENT: what klink.js does over hours, against a server of a few lines and with a clock that this script moves.
import { mock } from 'node:test'
import { pathToFileURL } from 'node:url'
import { check } from './proto.mjs'

process.removeAllListeners('warning') // mocked timers are called experimental
const HOUR = 3_600_000
const SKEW = 5 * 60_000 // the server's clock is behind
mock.timers.enable({ apis: ['setTimeout', 'Date'], now: Date.UTC(2026, 0, 1) })
const settle = async () => { for (let i = 0; i < 20; i++) await null }
const serverNow = () => Date.now() - SKEW
const jwt = (expMs) => ['e30', Buffer.from(JSON.stringify({ sub: 'ÿ?', exp: expMs / 1000 })).toString('base64url'), 'x'].join('.')

const dialed = []
let refreshes = 0
let expires = 0 // of the token that the server has
globalThis.WebSocket = class {
  constructor(url) {
    dialed.push(url)
    this.url = url
    queueMicrotask(() => this.onopen())
  }
  send(text) {
    const f = JSON.parse(text)
    if (f.connect) this.answer({ connected: { session: 's', heartbeat: { seconds: 60 }, tokenExpiresMs: String(expires), serverTimeMs: String(serverNow()) } })
    else if (f.refresh) {
      check(serverNow() < expires, 'a refresh that comes in time')
      refreshes++
      expires = JSON.parse(Buffer.from(f.refresh.token.split('.')[1], 'base64url')).exp * 1000
      this.answer({ error: { id: f.refresh.id, code: 'OK' } })
    } else this.answer({})
  }
  answer(f) { queueMicrotask(() => this.onmessage({ data: JSON.stringify(f) })) }
  close(code = 1000, reason = '') { this.onclose?.({ code, reason }) }
}

const { Klink } = await import(pathToFileURL(process.argv[2]))
const client = new Klink({
  urls: ['ws://a/connect'], device: 'd', token: async () => jwt(serverNow() + HOUR),
})
expires = serverNow() + HOUR
const connected = client.connect()
await settle()
await connected
const watched = new AbortController()
client.addEventListener('disconnected', (e) => check(false, `lost: ${JSON.stringify(e.detail)}`), { signal: watched.signal })
for (let t = 0; t < 10 * HOUR; t += 10_000) { // a session outlives any number of its tokens
  mock.timers.tick(10_000)
  await settle()
}
check(dialed.length === 1 && serverNow() < expires, `${dialed.length} dials, the token ended ${serverNow() - expires} ms ago`)
check(refreshes === 10, `${refreshes} tokens were exchanged in 10 hours`)
watched.abort()
client.close()

// An endpoint of another transport is passed over, one that can be dialed is taken.
for (const [target, want] of [['tls://b:7443', 'ws://a/connect'], ['wss://b/connect', 'wss://b/connect']]) {
  dialed.length = 0
  let last
  const Plain = globalThis.WebSocket
  globalThis.WebSocket = class extends Plain {
    constructor(url) { super(url); last = this }
  }
  const c = new Klink({ urls: ['ws://a/connect'], device: 'd', token: async () => jwt(serverNow() + HOUR) })
  expires = serverNow() + HOUR
  const ready = c.connect()
  await settle()
  await ready
  last.onmessage({ data: JSON.stringify({ disconnect: { code: 4000, target } }) })
  last.close(4000, 'drain')
  mock.timers.tick(1000)
  await settle()
  check(dialed.length === 2 && dialed[1] === want, `told to use ${target} it dials ${dialed}`)
  c.close()
  globalThis.WebSocket = Plain
}
console.log('ok')
process.exit(0)
