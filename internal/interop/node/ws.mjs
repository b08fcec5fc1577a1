// node ws.mjs WS-URL WSS-URL CA-FILE TOKEN: the npm package ws against both bindings, both subprotocols.
import fs from 'node:fs'
import WebSocket from 'ws'
import { frames, kind, Queue, check } from './proto.mjs'

const [wsURL, wssURL, caFile, token] = process.argv.slice(2)
const ca = fs.readFileSync(caFile)

function open(url, protocols, more = {}) {
  const ws = new WebSocket(url, protocols, { ca, servername: 'localhost', ...more })
  const inbox = new Queue()
  ws.on('message', (data, binary) => inbox.put({ data, binary }))
  ws.on('pong', (d) => inbox.put({ pong: d.toString() }))
  ws.on('close', (code, reason) => inbox.put({ code, reason: reason.toString() }))
  return new Promise((resolve, reject) => {
    ws.once('open', () => resolve({ ws, inbox }))
    ws.once('unexpected-response', (_, res) => reject(Object.assign(new Error('refused'), { status: res.statusCode })))
    ws.once('error', reject)
  })
}

for (const url of [wsURL, wssURL]) {
  // JSON
  {
    const { ws, inbox } = await open(url, ['klink.v1.json'])
    check(ws.protocol === 'klink.v1.json', `subprotocol ${ws.protocol}`)
    ws.send(JSON.stringify({ connect: { token, device: 'ws-json', attempt: String(Date.now()), tags: ['room:w'] } }))
    const c = JSON.parse((await inbox.take('Connected')).data)
    check(c.connected?.session && c.connected.tags[0].tag === 'room:w', `Connected says ${JSON.stringify(c)}`)
    ws.send('{}')
    check((await inbox.take('pong')).data.toString() === '{}', 'the pong is {}')
    const request = JSON.stringify({ request: { id: 7, service: 'echo', text: 'grüße 🦊' } })
    const raw = Buffer.from(request)
    for (let i = 0; i < raw.length; i++) ws.send(raw.subarray(i, i + 1), { binary: false, fin: i === raw.length - 1 }) // runes cut by fragments
    const r = JSON.parse((await inbox.take('Response')).data)
    check(r.response?.id === 7 && r.response.textBody === 'grüße 🦊', `Response says ${JSON.stringify(r)}`)
    ws.ping('are you there')
    check((await inbox.take('WebSocket pong')).pong === 'are you there', 'the pong carries the payload')
    ws.send(JSON.stringify({ publish: { id: 8, tag: 'room:w', json: '{"x":[1,2]}' }, someday: 1 }))
    const got = {}
    for (let i = 0; i < 2; i++) Object.assign(got, JSON.parse((await inbox.take('Published and Push')).data))
    check(got.published?.id === 8 && got.push?.json === '{"x":[1,2]}', `got ${JSON.stringify(got)}`)
    ws.close(1000, 'done')
    const end = await inbox.take('close')
    check(end.code === 1000, `closed with ${end.code} ${end.reason}`)
  }
  // binary
  {
    const { ws, inbox } = await open(url, ['klink.v1'])
    ws.send(Buffer.from(frames.connect(token, 'ws-bin')))
    check(kind((await inbox.take('Connected')).data) === 1, 'Connected')
    ws.send(Buffer.alloc(0))
    check((await inbox.take('pong')).data.length === 0, 'the pong is empty')
    ws.send(Buffer.from(frames.subscribe(1, 'room:b')))
    check(kind((await inbox.take('Subscribed')).data) === 2, 'Subscribed')
    ws.send('text in the binary subprotocol')
    let end = await inbox.take('close')
    while (end.code === undefined) end = await inbox.take('close') // a Disconnect frame may come first
    check(end.code === 1003, `text in the binary subprotocol: closed with ${end.code}`)
  }
  // a token that is no good
  {
    const { ws, inbox } = await open(url, ['klink.v1.json'])
    ws.send(JSON.stringify({ connect: { token: 'x', device: 'd' } }))
    const d = JSON.parse((await inbox.take('Disconnect')).data)
    check(d.disconnect?.code === 4501, `told ${JSON.stringify(d)}`)
    check((await inbox.take('close')).code === 4501, 'the close code is the same')
  }
  for (const [what, args, status] of [
    ['no subprotocol', [[]], 400], ['a foreign origin', [['klink.v1'], { origin: 'https://evil.example' }], 403],
  ]) {
    const got = await open(url, ...args).then(() => 101, (e) => e.status)
    check(got === status, `${what} is answered with ${got}`)
  }
  check((await open(url + 'x', ['klink.v1']).then(() => 101, (e) => e.status)) === 404, 'another path is not found')
}
console.log('ok')
