/** What tests of the webmail need: a service with mailboxes, a browser, and looks into its pages. */
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import axe from 'axe-core';
import type { Browser, Page } from 'playwright-core';
import type { MailService } from './mail-service.ts';
import { launchChromium } from './watched-page.ts';

export const DOMAIN = 'acme.test';
export const PHONE = { width: 390, height: 780 };
export const DESKTOP = { width: 1280, height: 800 };

export class MailPages {
  readonly service: MailService;
  readonly browser: Browser;
  readonly #endService: () => Promise<void>;
  #accounts = 0;

  constructor(service: MailService, browser: Browser, endService: () => Promise<void>) {
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
    await this.#endService();
  }
}

/** Starts a service with an active domain, and a browser. Who only looks at pages does not load the service. */
export async function startMailPages(
  environment: Readonly<Record<string, string>> = {},
): Promise<MailPages> {
  const { startMailService } = await import('./mail-service.ts');
  const { service, end } = await startMailService(environment);
  const browser = await launchChromium();
  await service.activate(DOMAIN);
  return new MailPages(service, browser, end);
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

export async function assertAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  const found = await inPage<unknown[]>(
    page,
    `axe.run({ exclude: ['iframe'] }).then(({ violations }) =>
      violations.map(({ id, impact, nodes }) => [id, impact, nodes.map(({ html }) => html)]))`,
  );
  assert.deepEqual(found, []);
}

/** The page has no scroll bar of its own: what is longer than its place scrolls within it. */
export async function assertFits(page: Page): Promise<void> {
  const [content, window] = await inPage<[number, number][]>(
    page,
    `[[document.documentElement.scrollWidth, document.documentElement.scrollHeight], [innerWidth, innerHeight]]`,
  );
  assert.deepEqual(content, window);
}
