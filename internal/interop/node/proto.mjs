// The few bytes of protobuf that the tests need, written without klink's own code.

const text = new TextEncoder()

function varint(n) {
  const out = []
  for (let v = BigInt(n); ; v >>= 7n) {
    const b = Number(v & 0x7fn)
    if (v < 0x80n) return [...out, b]
    out.push(b | 0x80)
  }
}

const bytes = (field, data) => [...varint(field << 3 | 2), ...varint(data.length), ...data]
const str = (field, s) => bytes(field, text.encode(s))
const num = (field, n) => [...varint(field << 3), ...varint(n)]

export const frames = {
  connect: (token, device, ...tags) => bytes(1, [...str(1, token), ...str(2, device), ...num(3, Date.now()), ...tags.flatMap((t) => str(7, t))]),
  subscribe: (id, tag) => bytes(2, [...num(1, id), ...bytes(2, str(1, tag))]),
  publish: (id, tag, json) => bytes(4, [...num(1, id), ...str(2, tag), ...str(5, json)]),
  echo: (id, msg) => bytes(5, [...num(1, id), ...str(2, 'echo'), ...str(5, msg)]),
  bye: () => bytes(10, []),
}

// kind is the field number of the frame, 0 for the empty one.
export const kind = (body) => (body.length === 0 ? 0 : body[0] >> 3)

export const stream = (body) => Buffer.from([...varint(body.length), ...body])

// Splitter cuts a byte stream into bodies.
export class Splitter {
  #buf = Buffer.alloc(0)
  push(chunk) {
    this.#buf = Buffer.concat([this.#buf, chunk])
    const out = []
    for (;;) {
      let n = 0, shift = 0, i = 0
      for (; i < this.#buf.length; i++) {
        n += (this.#buf[i] & 0x7f) * 2 ** shift
        shift += 7
        if (this.#buf[i] < 0x80) break
      }
      if (i >= this.#buf.length || this.#buf.length < i + 1 + n) return out
      out.push(this.#buf.subarray(i + 1, i + 1 + n))
      this.#buf = this.#buf.subarray(i + 1 + n)
    }
  }
}

// Queue lets a test wait for what arrives.
export class Queue {
  #items = []
  #waiters = []
  put(x) {
    const w = this.#waiters.shift()
    if (w) w(x)
    else this.#items.push(x)
  }
  take(what, ms = 10_000) {
    if (this.#items.length) return Promise.resolve(this.#items.shift())
    return new Promise((resolve, reject) => {
      const t = setTimeout(() => reject(new Error(`nothing came while waiting for ${what}`)), ms)
      this.#waiters.push((x) => { clearTimeout(t); resolve(x) })
    })
  }
}

export function check(ok, what) {
  if (!ok) throw new Error(what)
}
