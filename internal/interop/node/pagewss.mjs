// node pagewss.mjs PAGE-URL WSS-URL TOKEN: Chromium's own TLS 1.3 and WebSocket against the record layer, by klink.js in a page.
import { chromium } from 'playwright-core'
import { check } from './proto.mjs'

const [url, wss, token] = process.argv.slice(2)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
try {
  const page = await (await browser.newContext({ ignoreHTTPSErrors: true })).newPage()
  await page.goto(url)
  const got = await page.evaluate(async ({ wss, token }) => {
    const { Klink } = await import('./klink.js')
    const out = []
    for (let i = 0; i < 3; i++) { // the later ones may resume
      const client = new Klink({ urls: [wss], device: 'chromium-' + i, tags: ['room:wss'], token: async () => token })
      const push = new Promise((resolve) => client.addEventListener('push', (e) => resolve(e.detail.value)))
      await client.connect()
      const big = 'x'.repeat(20_000) // more than one record
      await client.publish('room:wss', { i, big })
      const value = await push
      const echoed = await client.request('echo', '', { i })
      out.push(value.i === i && value.big === big && echoed.i === i)
      client.close()
    }
    return out
  }, { wss, token })
  check(got.length === 3 && got.every(Boolean), `three sessions say ${JSON.stringify(got)}`)
} finally {
  await browser.close()
}
console.log('ok')
