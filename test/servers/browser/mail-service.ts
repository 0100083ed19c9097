/**
 * A service that shows the webmail as `npm run docs:build` made it, can be stopped and started
 * again, and has a mailbox.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTransport, type SendMailOptions } from 'nodemailer';
import { pino } from 'pino';
import { type Service, startService } from '../../../src/run/compose/service.ts';
import { readConfig } from '../../../src/run/config/config.ts';
import { freePort } from '../../support/free-port.ts';

const API_KEY = 'key-of-the-webmail-test';
export const PASSWORD = 'a good password';

export class MailService {
  readonly directory: string;
  readonly #environment: Readonly<Record<string, string>>;
  #service: Service | undefined;

  constructor(directory: string, environment: Readonly<Record<string, string>>) {
    this.directory = directory;
    this.#environment = environment;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#environment.PORT}`;
  }

  get smtpPort(): number {
    return Number(this.#environment.SMTP_PORT);
  }

  async start(): Promise<void> {
    const config = readConfig({ ...this.#environment }, this.directory);
    this.#service = await startService(config, pino({ level: 'silent' }));
  }

  async stop(): Promise<void> {
    await this.#service?.stop();
    this.#service = undefined;
  }

  /** Calls /v2 and answers with its body. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever JSON came back
  async call(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(this.url + path, {
      method,
      headers: { 'x-api-key': API_KEY, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
    return await response.json();
  }

  /** Makes a domain whose records are marked by hand. */
  async activate(domain: string): Promise<void> {
    const { domain: made } = await this.call('POST', '/v2/domain', { user_id: 'u', domain });
    for (const { id } of made.dns) {
      const mark = { user_id: 'u', id, status: 'verified' };
      await this.call('POST', `/v2/domains/${domain}/dns/mark`, mark);
    }
  }

  /** Makes an account with {@link PASSWORD}; answers with its id. */
  async makeAccount(localPart: string, domain: string): Promise<number> {
    const { account } = await this.call('POST', '/v2/email-accounts/create', {
      user_id: 'u',
      domain,
      local_part: localPart,
      display_name: 'Test',
      password: PASSWORD,
    });
    return account.id;
  }

  /** Sends by SMTP as any MTA would. */
  async send(message: SendMailOptions): Promise<void> {
    const transport = createTransport({
      host: '127.0.0.1',
      port: this.smtpPort,
      secure: false,
      ignoreTLS: true,
    });
    try {
      await transport.sendMail(message);
    } finally {
      transport.close();
    }
  }
}

/** Starts a service in a folder of its own; `end` stops it and removes the folder. */
export async function startMailService(
  environment: Readonly<Record<string, string>> = {},
): Promise<{ service: MailService; end: () => Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-webmail-'));
  const service = new MailService(directory, {
    DATA_DIR: directory,
    PORT: String(await freePort()),
    SMTP_PORT: String(await freePort()),
    RATE_LIMIT_PER_MINUTE: '0',
    // Nothing listens there: no test asks the DNS of the machine.
    DNS_SERVERS: '127.0.0.1:9',
    API_KEYS: API_KEY,
    ...environment,
  });
  await service.start();
  const end = async () => {
    await service.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { service, end };
}
