// node page.mjs PAGE-URL PUSH-URL [SCREENSHOT]: two tabs of the demo page chat in headless Chromium; a back end's push reaches both.
import { chromium } from 'playwright-core'
import { check } from './proto.mjs'

const [url, api, screenshot] = process.argv.slice(2)
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
})
try {
  const errors = []
  const tab = async () => {
    const page = await (await browser.newContext()).newPage()
    page.on('pageerror', (e) => errors.push(String(e)))
    page.on('console', (m) => { if (m.type() === 'error') errors.push(m.text()) })
    await page.goto(url)
    await page.locator('#status[data-state=connected]').waitFor({ timeout: 20_000 })
    return page
  }
  const [a, b] = [await tab(), await tab()]
  const say = async (from, text) => {
    await from.fill('#text', text)
    await from.press('#text', 'Enter')
  }
  const sees = (page, text) => page.locator('#log li', { hasText: text }).first().waitFor({ timeout: 10_000 })
  await say(a, 'hello from the first tab')
  await Promise.all([sees(a, 'hello from the first tab'), sees(b, 'hello from the first tab')])
  await say(b, 'and <b>hello</b> back 🦊')
  await sees(a, 'and <b>hello</b> back 🦊')
  check((await a.locator('#log b').count()) === 0, 'markup in a message is text')
  const names = await Promise.all([a, b].map((p) => p.locator('#status').textContent()))
  check(names[0] !== names[1], `both tabs are ${names[0]}`)

  const res = await fetch(api + '/v1/push', {
    method: 'POST', headers: { Authorization: 'Bearer dev', 'Content-Type': 'application/json' }, body: JSON.stringify({ to: { tags: ['room:lobby'] }, data: { text: 'from a back end' } }),
  })
  const pushed = await res.json()
  check(res.status === 200 && pushed.enqueued === 2, `push says ${JSON.stringify(pushed)}`)
  await Promise.all([sees(a, 'from a back end'), sees(b, 'from a back end')])
  if (screenshot) await a.screenshot({ path: screenshot })
  check(errors.length === 0, `the page reported ${errors.join('; ')}`)
} finally {
  await browser.close()
}
console.log('ok')
