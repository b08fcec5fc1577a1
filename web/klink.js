// klink.js: a client of klink/1 over WebSocket for browsers (and Node 22 or newer), as one ES module without dependencies.
//
//   const client = new Klink({ urls: ['wss://host:7443/connect'], token: async (reason) => '…' })
//   client.addEventListener('push', (e) => console.log(e.detail.tag, e.detail.value))
//   await client.connect()
//   await client.subscribe('room:1')
//   await client.publish('room:1', { hi: 1 })
//
// Events (CustomEvent, see detail): connected, disconnected {code, reason, retryInMs}, push {id, tag, from, value, timeMs},
// gap {tag, count, reason}, tags {added, removed}, closed {code, reason} when it gives up.
// It connects again by itself with full jitter, never without a delay, never holding two sockets, and stops on codes from 4500 on.

const SUBPROTOCOL = 'klink.v1.json'
const BACKOFF_BASE_MS = 500
const BACKOFF_CAP_MS = 60_000
const STEADY_MS = 60_000 // a connection that lived this long resets the backoff
const REFRESH_EARLY_MS = 30_000

export class KlinkError extends Error {
  constructor(code, text) {
    super(`${code}: ${text}`)
    this.code = code
  }
}

// Full jitter: anywhere between nothing and the exponential bound, but at least minMs.
export function backoff(failures, minMs = 100, random = Math.random) {
  const bound = Math.min(BACKOFF_CAP_MS, BACKOFF_BASE_MS * 2 ** Math.min(failures, 20))
  return Math.max(minMs, random() * bound)
}

export class Klink extends EventTarget {
  #options
  #socket = null
  #state = 'idle' // idle, connecting, connected, waiting, closed
  #failures = 0
  #nextID = 1
  #waiting = new Map() // id -> {resolve, reject, timer}
  #tags = new Set()
  #timers = { retry: 0, ping: 0, pong: 0, refresh: 0, steady: 0 }
  #lastSent = 0
  #urlAt = 0
  #urls
  #advice = null // of the last Disconnect frame
  #ready = null // {promise, resolve, reject} of connect()
  #session = ''
  #skewMs = 0 // of this clock, ahead of the server's

  // options: urls, token(reason) => string or promise, device (kept in localStorage where there is one), tags, requestTimeoutMs.
  constructor(options) {
    super()
    if (!options?.urls?.length) throw new TypeError('klink: urls is empty')
    if (typeof options.token !== 'function') throw new TypeError('klink: token must be a function')
    this.#options = { requestTimeoutMs: 10_000, ...options }
    this.#urls = [...options.urls]
    for (const t of options.tags ?? []) this.#tags.add(t)
  }

  get state() { return this.#state }
  get session() { return this.#session }
  get device() { return this.#options.device ?? (this.#options.device = deviceID()) }

  // connect resolves at the first Connected, and rejects when the client gives up before.
  connect() {
    if (this.#state === 'idle' || this.#state === 'closed') {
      this.#ready = withResolvers()
      this.#open('first')
    }
    return this.#ready.promise
  }

  // close says goodbye and stays closed.
  close() {
    if (this.#state === 'connected') this.#send({ bye: { reason: 'closed by the application' } })
    this.#end(1000, 'closed by the application')
  }

  // subscribe joins tags, now and after every reconnect. It resolves when the server has confirmed.
  async subscribe(...tags) {
    for (const t of tags) this.#tags.add(t)
    const answer = await this.#ask((id) => ({ subscribe: { id, tags: tags.map((tag) => ({ tag })) } }))
    for (const r of answer.tags ?? []) {
      if (r.error && r.error !== 'OK') {
        this.#tags.delete(r.tag)
        throw new KlinkError(r.error, `${r.tag}: ${r.text}`)
      }
    }
  }

  async unsubscribe(...tags) {
    for (const t of tags) this.#tags.delete(t)
    await this.#ask((id) => ({ unsubscribe: { id, tags } }))
  }

  // publish sends a value (as JSON) to everyone who carries the tag; resolves to {push, matched, enqueued}.
  async publish(tag, value, { collapseKey = '', droppable = false } = {}) {
    return this.#ask((id) => ({ publish: { id, tag, json: JSON.stringify(value), collapseKey, droppable } }))
  }

  // request asks a service behind klink; resolves to the value of its answer.
  async request(service, method, value) {
    const r = await this.#ask((id) => ({
      request: { id, service, method, json: JSON.stringify(value ?? null), deadlineMs: this.#options.requestTimeoutMs },
    }))
    if (r.error && r.error !== 'OK') throw new KlinkError(r.error, r.text)
    return bodyOf({ json: r.json, text: r.textBody, data: r.data })
  }

  // ---- connection ----

  async #open(reason) {
    this.#state = 'connecting'
    let token
    try {
      token = await this.#options.token(reason)
    } catch (err) {
      this.#retry(0, `no token: ${err.message}`)
      return
    }
    if (this.#state !== 'connecting') return
    // The operator may name an endpoint of another transport, which a browser can't dial.
    const target = /^wss?:\/\//.test(this.#advice?.target ?? '') ? this.#advice.target : ''
    const url = target || this.#urls[this.#urlAt++ % this.#urls.length]
    this.#advice = null
    let socket
    try {
      socket = new WebSocket(url, SUBPROTOCOL)
    } catch (err) {
      this.#end(0, err.message)
      return
    }
    this.#socket = socket
    const limit = setTimeout(() => socket.close(), 15_000)
    socket.onopen = () => {
      this.#send({
        connect: {
          token, device: this.device, attempt: String(nextAttempt()), client: { name: 'klink.js', version: '1' },
          tags: [...this.#tags], resume: this.#session ? { session: this.#session } : undefined,
        },
      })
    }
    socket.onmessage = (e) => {
      if (this.#socket !== socket) return
      clearTimeout(limit)
      this.#receive(e.data)
    }
    socket.onclose = (e) => {
      clearTimeout(limit)
      if (this.#socket !== socket) return
      this.#socket = null
      this.#lost(e.code, e.reason)
    }
  }

  #lost(code, reason) {
    this.#clear()
    for (const [id, w] of this.#waiting) {
      clearTimeout(w.timer)
      w.reject(new KlinkError('UNAVAILABLE', 'the connection was lost; whether it took effect is unknown'))
      this.#waiting.delete(id)
    }
    if (this.#state === 'closed') return
    const advice = this.#advice
    const newToken = code === 4501 || code === 4506 // worth one new token and one try
    if ((code >= 4500 && code < 5000 && !newToken) || (newToken && this.#failures > 0)) {
      this.#end(code, reason)
      return
    }
    this.#retry(code, reason, advice?.delayMs ?? 0)
  }

  #retry(code, reason, delayMs = 0) {
    this.#state = 'waiting'
    const ms = delayMs + backoff(this.#failures++)
    this.#emit('disconnected', { code, reason, retryInMs: Math.round(ms) })
    const why = code === 4003 || code === 4501 || code === 4506 ? 'expired' : 'reconnect'
    this.#timers.retry = setTimeout(() => this.#open(why), ms)
  }

  #end(code, reason) {
    this.#state = 'closed'
    this.#clear()
    const socket = this.#socket
    this.#socket = null
    socket?.close(1000)
    for (const w of this.#waiting.values()) {
      clearTimeout(w.timer)
      w.reject(new KlinkError('UNAVAILABLE', 'closed'))
    }
    this.#waiting.clear()
    this.#ready?.reject(new KlinkError(code, reason))
    this.#ready?.promise.catch(() => {}) // nobody may be waiting
    this.#emit('closed', { code, reason })
  }

  #clear() {
    for (const k of Object.keys(this.#timers)) clearTimeout(this.#timers[k])
  }

  // ---- frames ----

  #send(frame) {
    this.#lastSent = Date.now()
    this.#socket.send(JSON.stringify(frame))
  }

  #ask(make) {
    if (this.#state !== 'connected') return Promise.reject(new KlinkError('UNAVAILABLE', `not connected (${this.#state})`))
    const id = this.#nextID++ & 0x7fffffff || this.#nextID++
    const w = withResolvers()
    w.timer = setTimeout(() => {
      this.#waiting.delete(id)
      w.reject(new KlinkError('TIMEOUT', `no answer in ${this.#options.requestTimeoutMs} ms`))
    }, this.#options.requestTimeoutMs)
    this.#waiting.set(id, w)
    this.#send(make(id))
    return w.promise
  }

  #settle(id, answer, error) {
    const w = this.#waiting.get(id)
    if (!w) return
    this.#waiting.delete(id)
    clearTimeout(w.timer)
    if (error) w.reject(error)
    else w.resolve(answer)
  }

  #receive(text) {
    clearTimeout(this.#timers.pong)
    const f = JSON.parse(text)
    if (f.push) this.#push(f.push)
    else if (f.connected) this.#connected(f.connected)
    else if (f.subscribed) this.#settle(f.subscribed.id, f.subscribed)
    else if (f.published) this.#settle(f.published.id, f.published)
    else if (f.response) this.#settle(f.response.id, f.response)
    else if (f.tagsChanged) this.#emit('tags', { added: f.tagsChanged.added ?? [], removed: f.tagsChanged.removed ?? [] })
    else if (f.gap) this.#emit('gap', { tag: f.gap.tag ?? '', count: f.gap.count ?? 0, reason: f.gap.reason ?? '' })
    else if (f.ping) this.#send({ pong: { id: f.ping.id } })
    else if (f.disconnect) this.#advice = f.disconnect
    else if (f.error) {
      const ok = !f.error.code || f.error.code === 'OK'
      this.#settle(f.error.id, f.error, ok ? null : new KlinkError(f.error.code, f.error.text))
    }
  }

  #push(p) {
    this.#emit('push', { id: p.id, tag: p.tag ?? '', from: p.from ?? '', value: bodyOf(p), timeMs: Number(p.timeMs ?? 0) })
  }

  #connected(c) {
    this.#state = 'connected'
    this.#session = c.session
    this.#timers.steady = setTimeout(() => { this.#failures = 0 }, STEADY_MS)
    this.#heartbeat((c.heartbeat?.seconds ?? 60) * 1000)
    this.#skewMs = Date.now() - Number(c.serverTimeMs)
    this.#refreshBefore(Number(c.tokenExpiresMs ?? 0))
    for (const t of c.tags ?? []) {
      if (t.error && t.error !== 'OK') this.#tags.delete(t.tag)
    }
    this.#ready.resolve(c)
    this.#emit('connected', c)
  }

  // refreshBefore plans the exchange of a token that ends at a time of the server; 0: it is not known, or there is no end.
  #refreshBefore(expiresMs) {
    const left = expiresMs - (Date.now() - this.#skewMs)
    if (expiresMs > 0) this.#timers.refresh = setTimeout(() => this.#refresh(), Math.min(Math.max(1000, left - REFRESH_EARLY_MS), 2 ** 31 - 1))
  }

  async #refresh() {
    const socket = this.#socket
    try {
      const token = await this.#options.token('refresh')
      await this.#ask((id) => ({ refresh: { id, token } }))
      if (this.#socket === socket) this.#refreshBefore(expiryOf(token))
    } catch { /* the server will close with token_expired, and the next connect asks for a token */ }
  }

  // A ping goes out only if nothing else did for an interval; without any answer the socket is given up.
  #heartbeat(ms) {
    const beat = () => {
      const idle = Date.now() - this.#lastSent
      if (idle >= ms - 50) {
        this.#send({})
        const socket = this.#socket
        this.#timers.pong = setTimeout(() => {
          if (this.#socket !== socket) return
          this.#socket = null
          socket.close()
          this.#lost(4002, 'no answer to a heartbeat')
        }, Math.min(Math.max(ms / 4, 5000), 20_000))
      }
      this.#timers.ping = setTimeout(beat, Math.max(50, ms - (Date.now() - this.#lastSent)))
    }
    this.#timers.ping = setTimeout(beat, ms)
  }

  #emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }))
  }
}

// bodyOf is the value of a payload: JSON parsed, text as it is, bytes as Uint8Array.
function bodyOf(p) {
  if (p.json !== undefined) return JSON.parse(p.json)
  if (p.text !== undefined) return p.text
  if (p.data !== undefined) return Uint8Array.from(atob(p.data), (c) => c.charCodeAt(0))
  return null
}

// expiryOf is the end of a JWT in Unix milliseconds, 0 if it tells none.
function expiryOf(token) {
  try {
    return JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/'))).exp * 1000 || 0
  } catch {
    return 0
  }
}

function withResolvers() {
  const w = {}
  w.promise = new Promise((resolve, reject) => Object.assign(w, { resolve, reject }))
  return w
}

const memory = new Map()
const store = globalThis.sessionStorage ?? { getItem: (k) => memory.get(k) ?? null, setItem: (k, v) => memory.set(k, v) }

// A tab is an install of its own: sessionStorage lives as long as the tab and survives reloads.
function deviceID() {
  let id = store.getItem('klink.device')
  if (!id) {
    id = 'web-' + [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, '0')).join('')
    store.setItem('klink.device', id)
  }
  return id
}

// Attempts grow, so that a late old connect never takes the place of a newer one.
function nextAttempt() {
  const n = Math.max(Number(store.getItem('klink.attempt') ?? 0) + 1, Date.now())
  store.setItem('klink.attempt', String(n))
  return n
}
