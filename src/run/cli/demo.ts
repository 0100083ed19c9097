/** `postroom demo`: from nothing to a mailbox with a message. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { Command } from 'commander';
import { pino } from 'pino';
import { type Config, programName, publicUrlOf, readConfig } from '../config/config.ts';
import { CommandFailed, type CommandParts, helpText, report } from './command.ts';
import { NotRunning, openClient, Refused, ServiceClient } from './service-client.ts';

const USER = 'demo';
const DOMAIN = 'acme.test';
const LOCAL_PART = 'ada';
const ADDRESS = `${LOCAL_PART}@${DOMAIN}`;

interface DemoArguments {
  readonly url?: string;
  readonly password?: string;
  readonly json?: true;
  readonly export?: true;
}

const HELP = `
Where no service runs, this starts one, which runs until Ctrl-C. Run again, it gives the mailbox a new password,
unless it is given the one of before, and sends another mail. The domain is in no DNS, so its records are marked as verified by hand.
In a shell, eval "$(${programName} demo --export)" sets URL, KEY and TOKEN.`;

export function demoCommand(parts: CommandParts): Command {
  return new Command('demo')
    .description(
      'makes a domain, an account, a token and a first message, and prints the link to the inbox',
    )
    .option('--url <url>', 'URL of the service; default: from HOST and PORT')
    .option('--password <password>', 'password of the mailbox; default: a random one')
    .option('--json', 'prints the result as JSON')
    .option('--export', 'prints the result as shell commands')
    .addHelpText('after', helpText(HELP))
    .action((given: DemoArguments) => runDemo(parts, given));
}

async function runDemo(parts: CommandParts, given: DemoArguments): Promise<void> {
  const config = readConfig(process.env);
  const { smtp } = config;
  try {
    const client = await openClient(config, given.url);
    const made = await makeDemo(client, given, smtp.port === 0 ? undefined : smtp);
    return say(given, client, made);
  } catch (error) {
    // In $(...) the shell would wait for the end of the service.
    if (!(error instanceof NotRunning) || given.url || given.export) throw error;
  }
  await runWithService(parts, config, given);
}

/** Starts the service in this process, and waits until a signal ends it. */
async function runWithService(
  parts: CommandParts,
  config: Config,
  given: DemoArguments,
): Promise<void> {
  const service = await parts.startService(config, pino({ level: 'error' }));
  const ending = Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
  try {
    const { http, smtp } = service.addresses;
    const keys = config.credentials.apiKeys ?? service.secrets.apiKey;
    const client = new ServiceClient(publicUrlOf(http.host, http.port), keys);
    const made = await makeDemo(client, given, smtp);
    say(given, client, made);
    if (!given.json) process.stdout.write('\nThe service runs in this terminal until Ctrl-C.\n');
    await ending;
  } finally {
    await service.stop();
  }
}

interface Demo {
  readonly password: string;
  readonly token: string;
  readonly hasMail: boolean;
}

interface Server {
  readonly host: string;
  readonly port: number;
}

/** @param smtp undefined where SMTP is off: then no mail is sent */
async function makeDemo(
  client: ServiceClient,
  given: DemoArguments,
  smtp: Server | undefined,
): Promise<Demo> {
  await makeDomain(client);
  // Random: a mailbox left from a trial must not have a known password.
  const password = given.password ?? randomBytes(12).toString('base64url');
  const isNew = await makeAccount(client, password);
  // A new password ends the tokens of before, which may be in use.
  const signedIn =
    isNew || given.password === undefined
      ? undefined
      : await signIn(client, password).catch(passIf('unauthorized'));
  if (!isNew && !signedIn) await resetPassword(client, password);
  const { token } = signedIn ?? (await signIn(client, password));
  if (smtp) await sendMail(smtp);
  return { password, token, hasMail: smtp !== undefined };
}

function signIn(client: ServiceClient, password: string): Promise<{ token: string }> {
  return client.call('POST', '/mail/token', { address: ADDRESS, password }, {});
}

async function makeDomain(client: ServiceClient): Promise<void> {
  const claim = { domain: DOMAIN, user_id: USER };
  await client.call('POST', '/v2/domain', claim).catch(passIf('domain_exists'));
  const { dns } = await client.call<{ dns: { id: number; status: string }[] }>(
    'GET',
    `/v2/domains/${DOMAIN}/info?user_id=${USER}`,
  );
  for (const { id, status } of dns) {
    if (status === 'verified') continue;
    const mark = { user_id: USER, id, status: 'verified' };
    await client.call('POST', `/v2/domains/${DOMAIN}/dns/mark`, mark);
  }
}

/** @returns false where it exists */
async function makeAccount(client: ServiceClient, password: string): Promise<boolean> {
  const account = {
    user_id: USER,
    domain: DOMAIN,
    local_part: LOCAL_PART,
    display_name: 'Ada',
    password,
  };
  const made = await client
    .call('POST', '/v2/email-accounts/create', account)
    .catch(passIf('address_exists'));
  return made !== undefined;
}

async function resetPassword(client: ServiceClient, password: string): Promise<void> {
  const { items } = await client.call<{ items: { id: number; address: string }[] }>(
    'GET',
    `/v2/email-accounts?user_id=${USER}&domain=${DOMAIN}&limit=200`,
  );
  const id = items.find(({ address }) => address === ADDRESS)?.id;
  if (id === undefined) throw new CommandFailed(`${ADDRESS} belongs to another user`);
  const reset = { user_id: USER, password };
  await client.call('POST', `/v2/email-accounts/${id}/password/reset`, reset);
}

function passIf(code: string): (error: unknown) => undefined {
  return (error) => {
    if (!(error instanceof Refused) || error.code !== code) throw error;
  };
}

const MAIL = [
  'From: Bob <bob@sender.test>',
  `To: Ada <${ADDRESS}>`,
  'Subject: Hello',
  '',
  'Hello, Ada.',
  '',
].join('\r\n');

/** A sender below .test has no DMARC policy (RFC 6761 section 6.2), so no check refuses it. */
async function sendMail({ host, port }: Server): Promise<void> {
  const { createTransport } = await import('nodemailer');
  const transport = createTransport({
    host: new URL(publicUrlOf(host, port)).hostname,
    port,
    ignoreTLS: true,
  });
  try {
    const envelope = { from: 'bob@sender.test', to: ADDRESS };
    await transport.sendMail({ envelope, raw: MAIL });
  } catch (error) {
    throw new CommandFailed(`${host}:${port} did not accept the message: ${String(error)}`);
  } finally {
    transport.close();
  }
}

function say(given: DemoArguments, { url, key }: ServiceClient, demo: Demo): void {
  const { password, token, hasMail } = demo;
  const inbox = `${url}/webmail`;
  if (given.export) {
    const values = { URL: url, KEY: key, TOKEN: token, ADDRESS, PASSWORD: password };
    const pairs = Object.entries(values).map(([name, value]) => `${name}=${quote(value)}`);
    process.stdout.write(`export ${pairs.join(' ')}\n`);
    return;
  }
  const result = { ok: true, url, domain: DOMAIN, address: ADDRESS, password, token, inbox };
  const lines = [
    `${hasMail ? 'A mail is' : 'No mail was sent, since SMTP is off. The mailbox is'} here:`,
    `  Webmail    ${inbox}`,
    `  Address    ${ADDRESS}`,
    `  Password   ${password}`,
    `  Token      ${token}`,
    '',
    'See what is new in it, from a shell:',
    `  curl -sS '${url}/mail/sync' -H 'authorization: Bearer ${token}' -H 'content-type: application/json' -d '{"mailbox":"INBOX"}'`,
  ];
  report(given.json, result, lines.join('\n'));
}

/** As one word of a POSIX shell. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
