/**
 * What is printed once everything listens: where things are and, at the first start on a terminal,
 * lines to paste that take a domain from nothing to its first mail.
 */
import { randomBytes } from 'node:crypto';
import type { Config } from './environment.ts';
import { publicUrlOf, redactUrl, urlHost } from './parse-urls.ts';
import { type Secrets, secretsPath } from './secrets.ts';

/** A bound address, as `server.address()` gives it. */
export interface BoundAddress {
  readonly address: string;
  readonly port: number;
}

/** What listens; a member is absent where it is off. */
export interface BoundAddresses {
  readonly http: BoundAddress;
  readonly smtp?: BoundAddress | undefined;
  readonly lmtp?: BoundAddress | undefined;
  readonly metrics?: BoundAddress | undefined;
}

export interface Start {
  readonly config: Config;
  readonly secrets: Secrets;
  /** Whether the secrets were made by this start. */
  readonly created: boolean;
  readonly stdoutIsTty: boolean;
  readonly addresses: BoundAddresses;
}

/**
 * The text of a start, with a line break at its end.
 *
 * Holds a secret (the generated API key) at the first start on a terminal only: elsewhere stdout
 * is a log.
 */
export function describeStart(start: Start): string {
  const { config, created, stdoutIsTty } = start;
  if (created && stdoutIsTty) return describeFirstStart(start);
  const lines = [`Postroom listens: ${listeners(start.addresses).join(', ')}`];
  if (created) {
    lines.push(`Secrets were made; they are in ${secretsPlace(config)}, the API key as "apiKey".`);
  } else {
    lines.push(`Data: ${dataPlace(config)}; secrets: ${secretsPlace(config)}`);
  }
  return `${lines.join('\n')}\n`;
}

function describeFirstStart(start: Start): string {
  const { config, addresses } = start;
  const url = urlOf(addresses.http);
  const ownKeys = config.credentials.apiKeys !== undefined;
  return `Postroom listens.

  HTTP, WebSocket  ${url}
  Documentation    ${url}/docs
  Live inbox       ${url}/docs/inbox (sign in with an address and its password)
  SMTP             ${authorityOf(addresses.smtp)}
  LMTP             ${authorityOf(addresses.lmtp)}
  Metrics          ${authorityOf(addresses.metrics)}
  Data             ${dataPlace(config)}
  Secrets          ${secretsPlace(config)}
  API key          ${ownKeys ? 'one of API_KEYS' : `${start.secrets.apiKey} (shown this once)`}

Try it: paste these lines one by one into another terminal.

${trial(start)
  .map(([what, command]) => `${what}\n${command}`)
  .join('\n\n')}

`;
}

/**
 * What each step does, and its command: one line for plain sh with curl. The calls of all stay far
 * below the rate limit.
 */
function trial({ config, secrets, addresses }: Start): (readonly [string, string])[] {
  const key = config.credentials.apiKeys === undefined ? secrets.apiKey : '<one of API_KEYS>';
  // Drawn anew: a mailbox left over from a trial must not have a password that everybody knows.
  const password = randomBytes(12).toString('base64url');
  const address = 'ada@acme.test';
  const account = {
    domain: 'acme.test',
    local_part: 'ada',
    display_name: 'Ada',
    user_id: 'demo',
    password,
  };
  const login = post('/mail/token', '', { address, password });
  const token = `${login} | ${pick('"token":"[^"]*"', `'"' -f4`)}`;
  const bearer = ' -H "authorization: Bearer $TOKEN"';
  const { smtp } = addresses;
  return [
    ['Where to call, and the key:', `export URL=${urlOf(addresses.http)} KEY='${key}'`],
    ['Add a domain:', post('/v2/domain', apiKeyHeader, { domain: 'acme.test', user_id: 'demo' })],
    ['It is in no DNS, so mark its records by hand:', markRecords('acme.test', 'demo')],
    ['Create a mailbox:', post('/v2/email-accounts/create', apiKeyHeader, account)],
    ...(smtp ? [['Send it a mail:', sendMail(smtp, address)] as const] : []),
    ['Get a token for the mailbox:', `export TOKEN=$(${token})`],
    ['See what is new in it:', post('/mail/sync', bearer, { mailbox: 'INBOX' })],
  ];
}

const apiKeyHeader = ' -H "x-api-key: $KEY"';
const jsonHeader = ` -H 'content-type: application/json'`;

/** @param body holds no single quotes */
function post(path: string, header: string, body: object): string {
  return `curl -sS -w '\\n' "$URL${path}"${header}${jsonHeader} -d '${JSON.stringify(body)}'`;
}

/** Finds a member of a JSON answer without jq, which few machines have. */
function pick(pattern: string, cut: string): string {
  return `grep -o '${pattern}' | cut -d${cut}`;
}

/** Marks each record of a domain as verified; no name below .test is in the DNS. */
function markRecords(domain: string, user: string): string {
  const info = `curl -sS "$URL/v2/domains/${domain}/info?user_id=${user}"${apiKeyHeader}`;
  const mark =
    `curl -sS -o /dev/null -w "record $id: %{http_code}\\n" "$URL/v2/domains/${domain}/dns/mark"` +
    `${apiKeyHeader}${jsonHeader} -d '{"user_id":"${user}","id":'$id',"status":"verified"}'`;
  return `for id in $(${info} | ${pick('"id":[0-9]*', ': -f2')}); do ${mark}; done`;
}

/** A sender below .test has no DMARC policy (RFC 6761 section 6.2), so no check refuses it. */
function sendMail(smtp: BoundAddress, recipient: string): string {
  const message =
    `From: Bob <bob@sender.test>\\r\\nTo: Ada <${recipient}>\\r\\n` +
    'Subject: Hello\\r\\n\\r\\nHello, Ada.\\r\\n';
  return (
    `printf '${message}' | curl -sS smtp://${authorityOf(smtp)}` +
    ` --mail-from bob@sender.test --mail-rcpt ${recipient} -T -`
  );
}

function listeners(addresses: BoundAddresses): string[] {
  const { http, smtp, lmtp, metrics } = addresses;
  const described = [`HTTP ${urlOf(http)}`];
  if (smtp) described.push(`SMTP ${authorityOf(smtp)}`);
  if (lmtp) described.push(`LMTP ${authorityOf(lmtp)}`);
  if (metrics) described.push(`metrics ${authorityOf(metrics)}`);
  return described;
}

function urlOf(bound: BoundAddress): string {
  return publicUrlOf(bound.address, bound.port);
}

function authorityOf(bound: BoundAddress | undefined): string {
  return bound === undefined ? 'off' : `${urlHost(bound.address)}:${bound.port}`;
}

function dataPlace({ dataDir, database }: Config): string {
  return database.urls === undefined
    ? `${dataDir} (SQLite)`
    : `${dataDir}, PostgreSQL at ${database.urls.map(redactUrl).join(', ')}`;
}

function secretsPlace({ dataDir, database }: Config): string {
  return database.urls === undefined ? secretsPath(dataDir) : 'the PostgreSQL database';
}
