import { Klink } from './klink.js'

const $ = (id) => document.getElementById(id)
const room = 'room:' + (new URLSearchParams(location.search).get('room') || 'lobby')

function line(text, from = '') {
  const li = document.createElement('li')
  if (from) {
    const who = document.createElement('span')
    who.className = 'from'
    who.textContent = from
    li.append(who)
  } else {
    li.className = 'note'
  }
  li.append(text)
  $('log').append(li)
  while ($('log').children.length > 500) $('log').firstChild.remove()
  $('log').scrollTop = $('log').scrollHeight
}

function status(state, text) {
  $('status').dataset.state = state
  $('status').textContent = text
}

async function config() {
  const known = sessionStorage.getItem('klink.user') ?? ''
  const r = await fetch('demo/config.json?user=' + encodeURIComponent(known), { cache: 'no-store' })
  if (!r.ok) throw new Error(`the demo's configuration: ${r.status}`)
  const c = await r.json()
  sessionStorage.setItem('klink.user', c.user)
  return c
}

async function start() {
  $('room').textContent = room
  let c = await config()
  $('curl').textContent =
    `curl -s ${location.origin}/v1/push -H 'Authorization: Bearer ${c.api_key}' \\\n` +
    `  -d '${JSON.stringify({ to: { tags: [room] }, data: { text: 'hello from a back end' } })}'`
  const client = new Klink({
    urls: location.protocol === 'https:' ? [c.wss] : [c.ws],
    tags: [room],
    token: async (reason) => {
      if (reason !== 'first') c = await config()
      return c.token
    },
  })
  client.addEventListener('connected', () => status('connected', `connected as ${c.user}`))
  client.addEventListener('disconnected', (e) =>
    status('waiting', `lost (${e.detail.reason || e.detail.code}); again in ${(e.detail.retryInMs / 1000).toFixed(1)} s`))
  client.addEventListener('closed', (e) => status('closed', `closed: ${e.detail.reason || e.detail.code}`))
  client.addEventListener('gap', (e) => line(`${e.detail.count} messages were dropped (${e.detail.reason})`))
  client.addEventListener('push', (e) => {
    const v = e.detail.value
    line(typeof v === 'string' ? v : v?.text ?? JSON.stringify(v), e.detail.from || 'back end')
  })
  $('form').addEventListener('submit', async (e) => {
    e.preventDefault()
    const text = $('text').value
    try {
      await client.publish(room, { text })
      $('text').value = ''
    } catch (err) {
      line(`not sent: ${err.message}`)
    }
  })
  await client.connect()
}

start().catch((err) => status('closed', err.message))
