/**
 * The text that is printed when everything listens: the addresses and, at the first start on a terminal, what to try
 * next.
 */
import { isIPv6 } from 'node:net';
import type { Config } from './environment.ts';
import { publicUrlOf, redactUrl } from './parse-urls.ts';
import { type Secrets, secretsPath } from './secrets.ts';

/** How the program is called: a clone has it in its folder, and runs TypeScript; the package has it on the PATH. */
export const programName = import.meta.url.endsWith('.ts') ? './postroom' : 'postroom';

/** Where a listener accepts connections. */
export interface BoundAddress {
  readonly host: string;
  readonly port: number;
}

/** The listeners; a member is absent where it is off. */
export interface BoundAddresses {
  readonly http: BoundAddress;
  readonly smtp?: BoundAddress | undefined;
  readonly lmtp?: BoundAddress | undefined;
  readonly imaps?: BoundAddress | undefined;
  readonly imap?: BoundAddress | undefined;
  readonly submissions?: BoundAddress | undefined;
  readonly submission?: BoundAddress | undefined;
  readonly metrics?: BoundAddress | undefined;
}

export interface Start {
  readonly config: Config;
  readonly secrets: Secrets;
  /** Whether no start before this one came so far as to listen. */
  readonly isFirst: boolean;
  readonly stdoutIsTty: boolean;
  readonly addresses: BoundAddresses;
}

/**
 * The text of a start, with a line break at its end.
 *
 * It contains a secret (the generated API key) only at the first start on a terminal: elsewhere stdout is a log.
 */
export function describeStart(start: Start): string {
  const { config, isFirst, stdoutIsTty } = start;
  if (isFirst && stdoutIsTty) return describeFirstStart(start);
  const lines = [`Postroom listens: ${listeners(start.addresses).join(', ')}`];
  lines.push(`Data: ${dataLocation(config)}; secrets: ${secretsLocation(config)}`);
  if (isFirst) {
    const key = config.credentials.apiKeys === undefined ? '; "apiKey" is the API key' : '';
    lines.push(`New secrets were generated there${key}.`);
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
  Webmail          ${config.webmail.isOn ? `${url}/webmail (sign in with an address and its password)` : 'off'}
  SMTP             ${authorityOf(addresses.smtp)}
  LMTP             ${authorityOf(addresses.lmtp)}
  Metrics          ${authorityOf(addresses.metrics)}
  Data             ${dataLocation(config)}
  Secrets          ${secretsLocation(config)}
  API key          ${ownKeys ? 'one of API_KEYS' : `${start.secrets.apiKey[0]} (shown this once)`}

Try it: run this in another terminal with the same settings. It makes a domain and a mailbox with a first message.

${programName} demo

`;
}

function listeners(addresses: BoundAddresses): string[] {
  const { http, smtp, lmtp, imaps, imap, submissions, submission, metrics } = addresses;
  const described = [`HTTP http://${authorityOf(http)}`];
  if (smtp) described.push(`SMTP ${authorityOf(smtp)}`);
  if (lmtp) described.push(`LMTP ${authorityOf(lmtp)}`);
  if (imaps) described.push(`IMAP with TLS ${authorityOf(imaps)}`);
  if (imap) described.push(`IMAP ${authorityOf(imap)}`);
  if (submissions) described.push(`submission with TLS ${authorityOf(submissions)}`);
  if (submission) described.push(`submission ${authorityOf(submission)}`);
  if (metrics) described.push(`metrics ${authorityOf(metrics)}`);
  return described;
}

function urlOf(bound: BoundAddress): string {
  return publicUrlOf(bound.host, bound.port);
}

/** What was bound: 0.0.0.0 is not this machine alone. */
function authorityOf(bound: BoundAddress | undefined): string {
  if (bound === undefined) return 'off';
  return `${isIPv6(bound.host) ? `[${bound.host}]` : bound.host}:${bound.port}`;
}

function dataLocation({ dataDir, database, bodies: { bucket } }: Config): string {
  const rows =
    database.urls === undefined
      ? `${dataDir} (SQLite)`
      : `${dataDir}, PostgreSQL at ${database.urls.map(redactUrl).join(', ')}`;
  return bucket === undefined
    ? rows
    : `${rows}, messages above 64 KiB in ${bucket.endpoint}/${bucket.bucket}`;
}

function secretsLocation({ dataDir, database }: Config): string {
  return database.urls === undefined
    ? secretsPath(dataDir)
    : 'the PostgreSQL database (table settings, name secrets)';
}
