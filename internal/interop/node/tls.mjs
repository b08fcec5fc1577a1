// node tls.mjs HOST PORT CA-FILE TOKEN: klink/1 over Node's own TLS; resumption; a refused old version.
import fs from 'node:fs'
import tls from 'node:tls'
import { frames, kind, stream, Splitter, Queue, check } from './proto.mjs'

const [host, port, caFile, token] = process.argv.slice(2)
const ca = fs.readFileSync(caFile)
const options = { host, port: Number(port), ca, servername: 'localhost', ALPNProtocols: ['klink/1'] }

async function session(extra, device) {
  const socket = tls.connect({ ...options, ...extra })
  const inbox = new Queue()
  const split = new Splitter()
  let ticket
  socket.on('session', (s) => { ticket = s })
  socket.on('data', (d) => { for (const b of split.push(d)) inbox.put(b) })
  socket.on('error', (e) => inbox.put(e))
  await new Promise((resolve, reject) => { socket.once('secureConnect', resolve); socket.once('error', reject) })
  check(socket.alpnProtocol === 'klink/1', `ALPN is ${socket.alpnProtocol}`)
  check(socket.getProtocol() === 'TLSv1.3', `protocol is ${socket.getProtocol()}`)
  // One byte at a time, then several frames in one write.
  for (const b of stream(frames.connect(token, device, 'room:n'))) socket.write(Buffer.from([b]))
  check(kind(await inbox.take('Connected')) === 1, 'the first frame is Connected')
  socket.write(Buffer.concat([stream([]), stream(frames.echo(1, 'hello')), stream(frames.publish(2, 'room:n', '{"a":1}'))]))
  const kinds = []
  for (let i = 0; i < 4; i++) kinds.push(kind(await inbox.take('answers')))
  check(kinds.sort().join() === '0,4,5,6', `pong, Published, Response and Push came as ${kinds}`)
  const [reused, cipher] = [socket.isSessionReused(), socket.getCipher().name]
  socket.write(stream(frames.bye()))
  await new Promise((resolve) => { socket.once('close', resolve); socket.on('end', () => socket.end()) })
  return { ticket, reused, cipher }
}

const first = await session({}, 'node-1')
check(!first.reused, 'the first session is new')
check(first.ticket, 'a ticket came')
for (let i = 0; i < 4; i++) {
  const again = await session({ session: first.ticket }, 'node-1')
  check(again.reused, `connection ${i} with the ticket resumes`)
}
for (const ciphers of ['TLS_AES_128_GCM_SHA256', 'TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256']) {
  const s = await session({ ciphers }, 'node-2')
  check(s.cipher === ciphers, `${ciphers} was asked for, ${s.cipher} agreed on`)
}
const old = await new Promise((resolve) => {
  const s = tls.connect({ ...options, maxVersion: 'TLSv1.2' }, () => resolve(null))
  s.on('error', resolve)
})
check(old, 'TLS 1.2 must be refused')
console.log('ok')
