/** The live inbox as tests use it: a service, a browser, and pages that are signed in. */
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import axe from 'axe-core';
import type { Browser, Locator, Page } from 'playwright-core';
import { launchChromium, openWatched, type WatchedPage } from './inbox-browser.ts';
import { type InboxService, PASSWORD, startInboxService } from './inbox-service.ts';

export const DOMAIN = 'acme.test';
export const PHONE = { width: 390, height: 780 };
export const DESKTOP = { width: 1280, height: 800 };

export class InboxPages {
  readonly service: InboxService;
  readonly browser: Browser;
  readonly #endService: () => Promise<void>;
  #accounts = 0;

  constructor(service: InboxService, browser: Browser, endService: () => Promise<void>) {
    this.service = service;
    this.browser = browser;
    this.#endService = endService;
  }

  /** Makes a mailbox nobody else uses. */
  async newAccount(): Promise<{ id: number; address: string }> {
    this.#accounts++;
    const id = await this.service.makeAccount(`ada${this.#accounts}`, DOMAIN);
    return { id, address: `ada${this.#accounts}@${DOMAIN}` };
  }

  async signIn(page: Page, address: string): Promise<void> {
    await page.goto(`${this.service.url}/docs/inbox`);
    await page.getByLabel('Address').fill(address);
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await page.getByRole('button', { name: 'Open the mailbox' }).click();
    await page.locator('[data-state=live]').waitFor();
  }

  /** Opens a page, signed in, with storage of its own. */
  async open(
    address: string,
    options: Parameters<typeof openWatched>[2] = {},
  ): Promise<WatchedPage> {
    const watched = await openWatched(this.browser, this.service.url, options);
    await this.signIn(watched.page, address);
    await settled(watched.page);
    return watched;
  }

  /** Sends by SMTP as a stranger would. */
  send(to: string, subject: string, more: object = {}): Promise<void> {
    const from = 'Bob <bob@sender.test>';
    return this.service.send({ from, to, subject, text: `Text of ${subject}`, ...more });
  }

  /** Calls /mail as another device of an account. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever JSON came back
  async callMail(accountId: number, method: string, path: string, body?: object): Promise<any> {
    const { token } = await this.service.call('POST', `/v2/email-accounts/${accountId}/token`, {
      user_id: 'u',
    });
    const response = await fetch(this.service.url + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return await response.json();
  }

  async end(): Promise<void> {
    await this.browser.close();
    await this.#endService();
  }
}

/** Starts a service with an active domain, and a browser. */
export async function startInboxPages(
  environment: Readonly<Record<string, string>> = {},
): Promise<InboxPages> {
  const { service, end } = await startInboxService(environment);
  const browser = await launchChromium();
  await service.activate(DOMAIN);
  return new InboxPages(service, browser, end);
}

/** Waits until a page that was opened asks for nothing more: the list of mailboxes is the last. */
export async function settled(page: Page): Promise<void> {
  const asked = page.locator('.entry', { hasText: 'GET /mail/mailboxes' });
  await asked.locator('.outcome', { hasText: '200' }).first().waitFor({ state: 'attached' });
}

/** Goes to a mailbox: until its link is the current one, the rows are those of the mailbox before. */
export async function goTo(page: Page, mailbox: string): Promise<void> {
  const link = page.locator('#mailboxes a', { hasText: mailbox });
  await link.click();
  await link.and(page.locator('[aria-current]')).waitFor();
}

/** The row of a message in the list. */
export function row(page: Page, subject: string): Locator {
  return page.locator('.row', { hasText: subject });
}

/** Runs an expression in the page. Written as text, since the page has other globals than Node. */
export function inPage<T>(page: Page, expression: string): Promise<T> {
  return page.evaluate<T>(expression);
}

/** Waits until an expression is true in the page. */
export async function until(page: Page, expression: string): Promise<void> {
  // Not waitForFunction, which evaluates text in the page: its policy refuses that.
  while (!(await inPage(page, `Boolean(${expression})`))) await setTimeout(50);
}

/** Whatever the page was to ask before this has been asked by its end. */
export async function roundTrip(page: Page): Promise<void> {
  await inPage(page, `fetch('/healthz').then((response) => response.text())`);
}

export async function assertAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  const found = await inPage<unknown[]>(
    page,
    `axe.run({ exclude: ['iframe'] }).then(({ violations }) =>
      violations.map(({ id, impact, nodes }) => [id, impact, nodes.map(({ html }) => html)]))`,
  );
  assert.deepEqual(found, []);
}

/** Nothing of the page is wider than the window. */
export async function assertFits(page: Page): Promise<void> {
  const widths = await inPage(page, '[document.documentElement.scrollWidth, innerWidth]');
  const [content, window] = widths as [number, number];
  assert.ok(content <= window, `the page is ${content} px wide in a window of ${window} px`);
}
