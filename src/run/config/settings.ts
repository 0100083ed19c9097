/**
 * The keys of the environment: how each is read, and its default.
 */
import { ConfigError, problemLine, quoteRefused, SettingRefused } from './config-error.ts';
import { databaseUrl } from './parse-database-url.ts';
import {
  bucketUrl,
  corsOrigin,
  hookUrl,
  jwksUrl,
  lmtpUrl,
  mailstoreUrl,
  publicUrl,
  redisUrl,
  relayUrl,
  rspamdUrl,
} from './parse-urls.ts';
import {
  apiKeys,
  color,
  extension,
  filePath,
  fullHostname,
  host,
  listOf,
  lmtpPort,
  network,
  oneOf,
  type Parse,
  port,
  publicKey,
  resolver,
  secretTexts,
  shortText,
  wholeNumber,
  yesOrNo,
} from './parse-values.ts';

/** How a key is read; `fallback` is the text read when the key is absent. */
interface Setting<Value> {
  readonly parse: Parse<Value>;
  readonly fallback: string | undefined;
}

function setting<Value>(parse: Parse<Value>, fallback: string): Setting<Value> {
  return { parse, fallback };
}

function optional<Value>(parse: Parse<Value>): Setting<Value | undefined> {
  return { parse, fallback: undefined };
}

/**
 * The most bytes of a message: `rfc822` is returned as one JSON string, in which a byte may take six characters, but
 * Node's strings have at most 2^29. An ordinary message of this size still fits.
 */
const largestMessage = 268_435_456;
/** RFC 5321 section 4.5.3.1.7: messages of 64 KiB must be accepted. */
const smallestMessageLimit = 65_536;

/** Every key, in the order of the documentation. */
const settings = {
  HOST: setting(host, '127.0.0.1'),
  PORT: setting(port(0), '8080'),
  SMTP_HOST: setting(host, '127.0.0.1'),
  SMTP_PORT: setting(port(0), '2525'),
  SMTP_MAX_PER_IP: setting(wholeNumber(1, 65_535), '20'),
  SMTP_MAX_CONNECTIONS: setting(wholeNumber(1, 65_535), '2000'),
  SMTP_TRUSTED_NETWORKS: setting(listOf(network, 'none'), '127.0.0.0/8,::1/128'),
  SMTP_PROXY_NETWORKS: setting(listOf(network, 'none'), 'none'),
  LMTP_HOST: setting(host, '127.0.0.1'),
  LMTP_PORT: setting(lmtpPort, '0'),
  IMAP_HOST: optional(host),
  IMAPS_PORT: setting(port(0), '0'),
  IMAP_PORT: setting(port(0), '0'),
  IMAP_PROXY_NETWORKS: setting(listOf(network, 'none'), 'none'),
  IMAP_DISABLE: setting(listOf(extension, 'none'), 'none'),
  SUBMISSION_HOST: optional(host),
  SUBMISSIONS_PORT: setting(port(0), '0'),
  SUBMISSION_PORT: setting(port(0), '0'),
  SUBMISSION_PROXY_NETWORKS: setting(listOf(network, 'none'), 'none'),
  DATA_DIR: setting(filePath, './data'),
  DATABASE_URL: optional(databaseUrl),
  DATABASE_POOL_SIZE: setting(wholeNumber(2, 1_000), '20'),
  DATABASE_TIMEOUT_SECONDS: setting(wholeNumber(1, 600), '8'),
  REDIS_URL: optional(redisUrl),
  S3_URL: optional(bucketUrl),
  API_KEYS: optional(apiKeys),
  JWT_SECRET: optional(secretTexts(32)),
  JWT_PUBLIC_KEY: optional(publicKey),
  JWT_JWKS_URL: optional(jwksUrl),
  JWT_ISSUER: optional(shortText),
  JWT_AUDIENCE: optional(shortText),
  JWT_ACCOUNT_CLAIM: setting(shortText, 'sub'),
  MAILSERVER_WEBHOOK_SECRET: optional(secretTexts(16)),
  PUBLIC_URL: optional(publicUrl),
  WEBMAIL: setting(yesOrNo, 'true'),
  WEBMAIL_NAME: setting(shortText, 'Mail'),
  WEBMAIL_COLOR: optional(color),
  MAIL_HOSTNAME: setting(fullHostname({ underscores: false }), 'mail.localhost'),
  SPF_INCLUDE: optional(fullHostname({ underscores: true })),
  DNS_SERVERS: setting(listOf(resolver, 'system'), 'system'),
  HTTP_MAX_PER_IP: setting(wholeNumber(1, 65_535), '250'),
  HTTP_MAX_CONNECTIONS: setting(wholeNumber(1, 1_000_000), '10000'),
  RATE_LIMIT_PER_MINUTE: setting(wholeNumber(0, 1_000_000), '60'),
  TRUST_PROXY: setting(listOf(network, 'off'), 'off'),
  CORS_ORIGINS: setting(listOf(corsOrigin, 'none'), 'none'),
  MAX_MESSAGE_BYTES: setting(
    wholeNumber(smallestMessageLimit, largestMessage, 'a number of bytes'),
    '52428800',
  ),
  MAILSTORE_URL: setting(mailstoreUrl, 'embedded'),
  QUOTA_BYTES: setting(wholeNumber(0, 999_999_999_999_999, 'a number of bytes'), '0'),
  TRASH_DAYS: setting(wholeNumber(0, 3_650, 'a number of days'), '0'),
  BODY_KEEP_HOURS: setting(wholeNumber(0, 8_760, 'a number of hours'), '48'),
  BACKUP_MAX_AGE_HOURS: setting(wholeNumber(0, 8_760, 'a number of hours'), '0'),
  DELIVERY_BODY_HOURS: setting(wholeNumber(1, 720, 'a number of hours'), '24'),
  SEND_ENABLED: setting(yesOrNo, 'true'),
  SEND_RECIPIENTS_PER_DAY: setting(wholeNumber(0, 1_000_000), '500'),
  TLS_CERT: optional(filePath),
  TLS_KEY: optional(filePath),
  SMTP_RELAY_URL: optional(relayUrl),
  MX_PORT: setting(port(1), '25'),
  LMTP_URL: optional(lmtpUrl),
  DMARC_ENFORCE: setting(yesOrNo, 'true'),
  RSPAMD_URL: optional(rspamdUrl),
  EVENT_DAYS: setting(wholeNumber(1, 365, 'a number of days'), '7'),
  TRACE_DAYS: setting(wholeNumber(0, 3_650), '30'),
  TRACE_SUBJECTS: setting(yesOrNo, 'false'),
  METRICS_HOST: setting(host, '127.0.0.1'),
  METRICS_PORT: setting(port(0), '0'),
  DRAIN_SECONDS: setting(wholeNumber(0, 600), '0'),
  OUTBOUND_ALLOW_CIDRS: setting(listOf(network, 'none'), 'none'),
  NOTIFIER_SPOOL: setting(filePath, '/var/spool/postroom'),
  NOTIFIER_URL: optional(hookUrl),
  LOG_LEVEL: setting(oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), 'info'),
};

type Key = keyof typeof settings;

/** What was read, by key. */
export type Values = {
  readonly [K in Key]: (typeof settings)[K] extends Setting<infer Value> ? Value : never;
};

/** The name of every key that {@link readConfig} knows. */
export const configKeys: readonly string[] = Object.freeze(Object.keys(settings));

/** Keys whose values are secret or may contain a secret; only whether they are set is shown. */
const hiddenKeys: ReadonlySet<Key> = new Set<Key>([
  'DATABASE_URL',
  'REDIS_URL',
  'S3_URL',
  'API_KEYS',
  'JWT_SECRET',
  'JWT_PUBLIC_KEY',
  'JWT_JWKS_URL',
  'MAILSERVER_WEBHOOK_SECRET',
  'MAILSTORE_URL',
  'SMTP_RELAY_URL',
  'LMTP_URL',
  'NOTIFIER_URL',
]);

/** A key as it may be shown to operators. */
export interface ShownSetting {
  readonly key: string;
  /** Whether it was set; otherwise it has its default, or the value that the first start generated. */
  readonly isSet: boolean;
  /** Absent where it is hidden, or has neither a value nor a default. */
  readonly value?: string | undefined;
  /** Whether it is secret or may hold a secret. */
  readonly isHidden: boolean;
}

/** Every key with the value in force, in the order of the documentation; nothing of a secret. */
export function showSettings(lookup: Lookup): ShownSetting[] {
  return Object.entries<Setting<unknown>>(settings).map(([key, { fallback }]) => {
    const given = lookup(key)?.trim() || undefined;
    const isHidden = hiddenKeys.has(key as Key);
    const value = isHidden ? undefined : (given ?? fallback);
    return { key, isSet: given !== undefined, isHidden, ...(value !== undefined && { value }) };
  });
}

/** Finds the text of a key; undefined or blank where the key is absent. */
export type Lookup = (key: string) => string | undefined;

/** Reads every key. @throws SettingRefused with one line for each invalid key */
export function readSettings(lookup: Lookup): Values {
  // Compose files and copied templates write "not set" as a blank value.
  const given = (key: string) => lookup(key)?.trim() || undefined;
  const lines: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [key, { parse, fallback }] of Object.entries<Setting<unknown>>(settings)) {
    const text = given(key) ?? fallback;
    if (text === undefined) continue;
    const reading = parse(text);
    if (reading.fits) values[key] = reading.value;
    else lines.push(problemLine(key, reading.expected, reading.found ?? quoteRefused(text)));
  }
  lines.push(...conflicts((key) => given(key) !== undefined));
  if (values.LMTP_URL !== undefined && values.MAILSTORE_URL === 'embedded') {
    const expected = 'the IMAP server that LMTP_URL brings mail to';
    lines.push(problemLine('MAILSTORE_URL', expected, 'embedded'));
  }
  if (lines.length > 0) throw new SettingRefused(lines);
  // Each key of `settings` got the value of its own parser, which the compiler can't follow.
  return values as unknown as Values;
}

/** Reads an argument of a command as a setting is read. @throws ConfigError */
export function readArgument<Value>(name: string, parse: Parse<Value>, text: string): Value {
  const reading = parse(text);
  if (reading.fits) return reading.value;
  throw new ConfigError([problemLine(name, reading.expected, reading.found ?? quoteRefused(text))]);
}

/** Keys that cannot be set together, or not alone. */
function conflicts(isSet: (key: Key) => boolean): string[] {
  const lines: string[] = [];
  if (isSet('JWT_PUBLIC_KEY') && isSet('JWT_JWKS_URL')) {
    lines.push(problemLine('JWT_JWKS_URL', 'only one of JWT_PUBLIC_KEY and JWT_JWKS_URL', 'both'));
  }
  if (isSet('TLS_CERT') && !isSet('TLS_KEY')) {
    lines.push(problemLine('TLS_KEY', 'the file of the key for TLS_CERT', 'nothing'));
  }
  if (isSet('TLS_KEY') && !isSet('TLS_CERT')) {
    lines.push(problemLine('TLS_CERT', 'the file of the certificate for TLS_KEY', 'nothing'));
  }
  return lines;
}
