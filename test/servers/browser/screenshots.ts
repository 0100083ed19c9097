/**
 * Makes the pictures of the README and of the guide "The console": `node test/servers/browser/screenshots.ts` starts a service with
 * the mail of two customers, and writes `docs/public/pictures/*.webp`. One of them has a webhook that is down.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { startDnsServer } from '../../support/dns-server.ts';
import { API_KEY, startTestService, type TestService } from '../../support/service.ts';
import { launchChromium } from './watched-page.ts';

const FOLDER = fileURLToPath(new URL('../../../docs/public/pictures/', import.meta.url));
const HOOK = 'https://hooks.globex.example/mail';

const sender = { from: 'Sam <sam@initech.example>' };

async function bringUp(service: TestService): Promise<void> {
  for (const [domain, user, people] of [
    ['acme.example', 'customer-17', ['ada', 'grace', 'linus']],
    ['globex.example', 'customer-42', ['hank']],
  ] as const) {
    const { body } = await service.v2('POST', '/v2/domain', { user_id: user, domain });
    for (const { id } of body.domain.dns) {
      const mark = { user_id: user, id, status: 'verified' };
      await service.v2('POST', `/v2/domains/${domain}/dns/mark`, mark);
    }
    for (const local_part of people) {
      const account = { user_id: user, domain, local_part, display_name: local_part };
      await service.v2('POST', '/v2/email-accounts/create', account);
    }
  }
  await service.v2('PUT', '/v2/domains/globex.example/route', {
    user_id: 'customer-42',
    forward_mode: 'webhook',
    webhook_url: HOOK,
  });
  for (const subject of ['Order 4711', 'Order 4712', 'Order 4713', 'Order 4714']) {
    await service.send({ ...sender, to: 'orders@globex.example', subject });
  }
  await service.send({ ...sender, to: 'ada@acme.example', subject: 'Minutes of Monday' });
  await service.send({ ...sender, to: 'ada@acme.example', subject: 'Your invoice' });
}

const letters = [
  {
    from: 'Sam <sam@initech.example>',
    subject: 'Minutes of Monday',
    text: 'Hello,\n\nthe minutes are below. Please correct what I got wrong.',
  },
  {
    from: 'Billing <billing@initech.example>',
    subject: 'Your invoice for October',
    text: 'The invoice is due on 30 November.',
  },
  {
    from: 'Noor <noor@initech.example>',
    subject: 'Lunch on Friday?',
    text: 'Hello Iris,\n\nshall we meet at noon, at the place by the river?\n\nNoor',
  },
];

/** The part of the page that is seen, as WebP, which is a third of PNG. */
async function picture(page: Page, name: string): Promise<void> {
  const devtools = await page.context().newCDPSession(page);
  const shot = { format: 'webp', quality: 85 } as const;
  const { data } = await devtools.send('Page.captureScreenshot', shot);
  await writeFile(`${FOLDER}${name}.webp`, Buffer.from(data, 'base64'));
}

/** The webmail of an account that got some mail, beside what it says to the server. */
async function showWebmail(service: TestService, page: Page): Promise<void> {
  const account = { user_id: 'customer-17', domain: 'acme.example', local_part: 'iris' };
  const { body } = await service.v2('POST', '/v2/email-accounts/create', account);
  const { address } = body.account;
  for (const { subject, text, from } of letters) {
    await service.send({ from, to: address, subject, text });
  }
  await page.goto(`${service.url}/docs/inbox`);
  await page.getByLabel('Address').fill(address);
  await page.getByLabel('Password', { exact: true }).fill(body.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('[data-state=live]').waitFor();
  await page.getByText('Lunch on Friday').first().click();
  await page.getByText('the place by the river').first().waitFor();
  await picture(page, 'webmail');
}

void test('the pictures', async () => {
  const dns = await startDnsServer([
    ['initech.example', 'TXT', 'v=spf1 ip4:127.0.0.1 -all'],
    ['initech.example', 'MX', '10 127.0.0.1'],
    ['hooks.globex.example', 'A', '127.0.0.1'],
  ]);
  const service = await startTestService('sqlite', {
    DNS_SERVERS: dns.address,
    MAIL_HOSTNAME: 'mail.hosting.example',
    SPF_INCLUDE: 'spf.hosting.example',
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    SMTP_TRUSTED_NETWORKS: 'none',
  });
  await bringUp(service);
  await mkdir(FOLDER, { recursive: true });
  const browser = await launchChromium();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    await page.goto(`${service.url}/console`);
    await page.getByLabel('API key').fill(API_KEY);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Overview' }).waitFor();
    await showWebmail(service, await browser.newPage({ viewport: { width: 1280, height: 720 } }));
    await page.goto(`${service.url}/console/messages?q=to:orders@globex.example`);
    await page.getByRole('link', { name: 'orders@globex.example' }).first().click();
    await page.getByRole('dialog').getByText('What happened').waitFor();
    await page.getByText('connection refused').first().waitFor();
    await picture(page, 'where-is-the-mail');
    await page.goto(`${service.url}/console/queue`);
    const group = page.getByRole('row', { name: /hooks\.globex\.example/ });
    await group.getByRole('button', { name: /^Actions of/ }).click();
    await page.getByRole('menuitem', { name: 'Retry', exact: true }).click();
    await page.getByRole('dialog').getByText('Retry 4 deliveries?').waitFor();
    await picture(page, 'retry');
    await page.goto(`${service.url}/console/domains/globex.example`);
    await page.getByRole('tab', { name: 'Route' }).waitFor();
    await picture(page, 'domain');
  } finally {
    await browser.close();
  }
});
