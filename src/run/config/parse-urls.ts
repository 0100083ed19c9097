/**
 * Reads the settings that are URLs. Pure, no I/O.
 *
 * These URLs may contain passwords, and a password whose `/`, `#` or `?` is not percent-encoded is read as another
 * part of the URL. So a refused value is shown only where no part of it can be a password.
 */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { BucketAddress } from '../../mailboxes/bodies/bodies.ts';
import type { RedisServer } from '../../platform/redis/redis.ts';
import { quote } from './config-error.ts';
import {
  filePath,
  fit,
  normalizeHostname,
  oneOf,
  type Parse,
  port,
  type Reading,
  unfit,
  wholeNumber,
} from './parse-values.ts';

export interface ServerAddress {
  readonly host: string;
  readonly port: number;
}

/** A server with the credentials to show it. */
export interface Server extends ServerAddress {
  /** TLS from the first byte (RFC 8314); otherwise by STARTTLS where the server offers it. */
  readonly implicitTls: boolean;
  readonly login: { readonly user: string; readonly password: string } | undefined;
}

/**
 * A URL with neither credentials nor query, for the operator and the log.
 *
 * @returns undefined where the text is not a URL
 */
export function redactUrl(text: string): string | undefined {
  // What is longer than these schemes may be a secret with a colon in it.
  const scheme = /^[a-z][a-z0-9+.-]{0,14}:/i.exec(text)?.[0].toLowerCase();
  if (scheme === undefined) return undefined;
  const url = URL.parse(text);
  const path = url?.pathname ?? '';
  if (url === null || url.host === '' || isUnencoded(url)) {
    return `${scheme}//...`;
  }
  const login = url.username === '' && url.password === '' ? '' : '***@';
  return `${scheme}//${login}${url.host}${path}`;
}

/** How a line shows a refused URL. */
export function found(text: string): string {
  const redacted = redactUrl(text);
  return redacted === undefined ? 'a text that is no URL' : quote(redacted);
}

/** The refusal of a URL whose password is not percent-encoded. */
export function unencoded(text: string): Reading<never> {
  return unfit('a URL whose user and password have / ? # @ percent-encoded', found(text));
}

const BUCKET_FORM =
  'https://KEY:SECRET@host/bucket?region=us-east-1 (http: for a local server; a bucket has a name of 3 to 63 small letters, digits, dots and dashes)';

/** Where bodies are kept: the bucket is the path, its region an option; s3: is read as https:. */
export const bucketUrl: Parse<BucketAddress> = (given) => {
  const text = given.replace(/^s3:/i, 'https:');
  const refused = unfit(BUCKET_FORM, found(given));
  const url = webUrl(text);
  if (!url) return refused;
  if (isUnencoded(url)) return unencoded(text);
  const login = readLogin(url);
  const bucket = /^\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/?$/.exec(url.pathname)?.[1];
  if (!login || login === 'malformed' || bucket === undefined || url.hash !== '') return refused;
  const { region = 'us-east-1', ...others } = Object.fromEntries(url.searchParams);
  if (Object.keys(others).length > 0) return unfit('no other option than region', 'another');
  if (!/^[a-z0-9-]{1,40}$/.test(region)) return unfit('region to be one like us-east-1', 'another');
  return fit({
    endpoint: url.origin,
    bucket,
    region,
    accessKeyId: login.user,
    secretAccessKey: login.password,
  });
};

/** The form of one kind of server URL. */
interface ServerUrlForm {
  /** The form in words, for the operator. */
  readonly expected: string;
  /** Scheme with its colon, and the port where the URL names none. */
  readonly ports: Readonly<Record<string, number>>;
  readonly implicitTls: string;
  readonly login: 'required' | 'optional' | 'refused';
}

function serverUrl(form: ServerUrlForm): Parse<Server> {
  return (text) => {
    const refused = unfit(form.expected, found(text));
    const url = URL.parse(text);
    const usualPort = url === null ? undefined : form.ports[url.protocol];
    if (url === null || usualPort === undefined) return refused;
    if (isUnencoded(url)) return unencoded(text);
    const server = readServer(url, usualPort);
    const login = readLogin(url);
    if (!server || !['', '/'].includes(url.pathname) || login === 'malformed') return refused;
    if (login === undefined ? form.login === 'required' : form.login === 'refused') return refused;
    return fit({ ...server, implicitTls: url.protocol === form.implicitTls, login });
  };
}

/** Whether the path or what follows it may be part of a password. */
function isUnencoded(url: URL): boolean {
  return `${url.pathname}${url.search}${url.hash}`.includes('@');
}

/** Host and port of a URL without options. */
function readServer(url: URL, usualPort: number): ServerAddress | undefined {
  const host = serverHost(url.hostname);
  const number = port(1)(url.port || `${usualPort}`);
  const isBare = url.search === '' && url.hash === '';
  return isBare && host !== undefined && number.fits ? { host, port: number.value } : undefined;
}

/** URL does not normalize the hosts of these schemes. */
function serverHost(hostname: string): string | undefined {
  const address = hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(address)) return address;
  return normalizeHostname(safelyDecoded(hostname) ?? '');
}

function readLogin(url: URL): Server['login'] | 'malformed' {
  if (url.username === '' && url.password === '') return undefined;
  const user = safelyDecoded(url.username);
  const password = safelyDecoded(url.password);
  return user && password ? { user, password } : 'malformed';
}

const REDIS_FORM =
  'redis://user:password@host:6379 or rediss:// for TLS, with /number where the database is not 0';
/** Redis has 16 databases by default. */
const redisDatabase = wholeNumber(0, 9_999);

/** The URL of Redis; a password is allowed without a user (`redis://:password@host`). */
export const redisUrl: Parse<RedisServer> = (text) => {
  const refused = unfit(REDIS_FORM, found(text));
  const url = URL.parse(text);
  if (!url || !['redis:', 'rediss:'].includes(url.protocol)) return refused;
  if (isUnencoded(url)) return unencoded(text);
  const server = readServer(url, 6379);
  const database = redisDatabase(url.pathname.replace(/^\//, '') || '0');
  const user = safelyDecoded(url.username);
  const password = safelyDecoded(url.password);
  if (!server || !database.fits || user === undefined || password === undefined) return refused;
  if (user !== '' && password === '') return refused;
  return fit({
    ...server,
    tls: url.protocol === 'rediss:',
    user: user || undefined,
    password: password || undefined,
    database: database.value,
  });
};

/** The URL of Rspamd's normal worker. */
export const rspamdUrl: Parse<string> = (text) => {
  const url = URL.parse(text);
  const isPlain =
    url && ['http:', 'https:'].includes(url.protocol) && url.origin === text.replace(/\/$/, '');
  return isPlain
    ? fit(url.origin)
    : unfit('http://host:11333 without a path or credentials', found(text));
};

function safelyDecoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** An IMAP server with a master user, without options. */
const imapServer: Parse<Server> = serverUrl({
  expected: 'embedded, or imaps://user:password@host:993 (imap: for STARTTLS)',
  ports: { 'imap:': 143, 'imaps:': 993 },
  implicitTls: 'imaps:',
  login: 'required',
});

/** The smarthost; the default port is that of submission (RFC 6409, RFC 8314). */
export const relayUrl: Parse<Server> = serverUrl({
  expected: 'smtp://user:password@host:587 or smtps://user:password@host:465',
  ports: { 'smtp:': 587, 'smtps:': 465 },
  implicitTls: 'smtps:',
  login: 'optional',
});

const lmtpServer = serverUrl({
  expected: 'lmtp://host:24 with a port other than 25',
  ports: { 'lmtp:': 24 },
  implicitTls: '',
  login: 'refused',
});

/** An LMTP server; LMTP must not be used on port 25 (RFC 2033 section 5). */
export const lmtpUrl: Parse<ServerAddress> = (text) => {
  const reading = lmtpServer(text);
  if (!reading.fits) return reading;
  const { host, port: number } = reading.value;
  return number === 25
    ? unfit('lmtp://host:24 with a port other than 25', found(text))
    : fit({ host, port: number });
};

/** The URL at which clients reach us, without a slash at its end; a path is kept, for a proxy that adds one. */
export const publicUrl: Parse<string> = (text) => {
  const url = openUrl(text);
  if (url === undefined || url.search !== '' || url.hash !== '') {
    return unfit('an http or https URL without credentials and query', found(text));
  }
  return fit(`${url.origin}${url.pathname}`.replace(/\/$/, ''));
};

/** Where the keys of a token issuer are (RFC 7517 section 5). */
export const jwksUrl: Parse<string> = (text) => {
  const url = openUrl(text);
  return url === undefined || url.hash !== ''
    ? unfit('an http or https URL without credentials', found(text))
    : fit(url.href);
};

/** Where the notifier posts: `/hooks/mailserver` of ours. */
export const hookUrl: Parse<string> = jwksUrl;

function webUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (!url || !['http:', 'https:'].includes(url.protocol)) return undefined;
  // URL would also accept http:example.com and http:/example.com.
  return /^https?:\/\//i.test(text) ? url : undefined;
}

/** One without credentials. */
function openUrl(text: string): URL | undefined {
  const url = webUrl(text);
  return url?.username === '' && url.password === '' ? url : undefined;
}

/** The origin of a browser app in the form of the Origin header (RFC 6454 section 6.1), or `*`. */
export const corsOrigin: Parse<string> = (text) => {
  if (text === '*') return fit('*');
  const url = URL.parse(text);
  const bare = url !== null && /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\\]+\/?$/i.test(text);
  if (!bare || url.host === '') return unfit('origins such as https://app.example.com, or *');
  // Apps in a native shell have their own schemes, for which URL gives the `origin` "null".
  return fit(`${url.protocol}//${url.host.toLowerCase()}`);
};

/**
 * The URL of one of our listeners: an address for "every interface" becomes localhost, IPv6 is bracketed (RFC 3986
 * section 3.2.2) without its zone.
 */
export function publicUrlOf(host: string, number: number): string {
  return `http://${urlHost(host)}:${number}`;
}

/** A listener's host in the form of a URL. */
export function urlHost(host: string): string {
  const version = isIP(host);
  if (version === 0) return host;
  if (ipaddr.parse(host).range() === 'unspecified') return 'localhost';
  return version === 6 ? `[${host.replace(/%.*$/, '')}]` : host;
}

/* Reads MAILSTORE_URL: our own store, or an IMAP server with options in the URL's query. */

/** The options for an IMAP server; for undefined ones the mail store has defaults. */
export interface ImapOptions {
  /** How the master's login opens an account: `account*master`, or SASL PLAIN with an authorization identity. */
  readonly auth: 'master' | 'plain';
  /** Separates account and master in a user name. */
  readonly separator: string;
  /** `verify` the certificate, accept any (`insecure`), or no TLS (`off`, only with imap:). */
  readonly tls: 'verify' | 'insecure' | 'off';
  /** PEM file of the authority that the certificate comes from. */
  readonly ca: string | undefined;
  /** Connections in all. */
  readonly connections: number | undefined;
  /** Connections of mail programs in all, beside those. */
  readonly programs: number | undefined;
  /** Seconds without an answer. */
  readonly timeout: number | undefined;
}

const separator: Parse<string> = (text) =>
  /^[!-~]$/.test(text) ? fit(text) : unfit('one character');

const readers = {
  auth: oneOf('master', 'plain'),
  separator,
  tls: oneOf('verify', 'insecure', 'off'),
  ca: filePath,
  connections: wholeNumber(1, 10_000),
  programs: wholeNumber(2, 10_000),
  timeout: wholeNumber(1, 600),
} as const;

type OptionName = keyof typeof readers;

function isOption(name: string): name is OptionName {
  return Object.hasOwn(readers, name);
}

/** The mail store: our own, or an IMAP server with a master user. */
export const mailstoreUrl: Parse<'embedded' | (Server & ImapOptions)> = (text) => {
  if (text.toLowerCase() === 'embedded') return fit('embedded');
  const at = text.indexOf('?');
  // If one of these follows, the `?` may be part of a password.
  const hasQuery = at >= 0 && !/[@#]/.test(text.slice(at));
  const server = imapServer(hasQuery ? text.slice(0, at) : text);
  if (!server.fits) return server;
  const options = readOptions(new URLSearchParams(hasQuery ? text.slice(at + 1) : ''));
  if (!options.fits) return options;
  if (options.value.tls === 'off' && server.value.implicitTls) {
    return unfit('imap: instead of imaps: together with tls=off', 'both');
  }
  return fit({ ...server.value, ...options.value });
};

function readOptions(query: URLSearchParams): Reading<ImapOptions> {
  const read: Partial<Record<OptionName, string | number>> = {};
  for (const [name, text] of query) {
    if (!isOption(name)) {
      return unfit(`only the options ${Object.keys(readers).join(', ')}`, 'another');
    }
    const reading: Reading<string | number> = readers[name](text);
    if (!reading.fits) return unfit(`${name} to be ${reading.expected}`, 'another value');
    read[name] = reading.value;
  }
  const { auth, tls, ca, connections, programs, timeout } = read;
  return fit({
    auth: auth === 'plain' ? 'plain' : 'master',
    separator: typeof read.separator === 'string' ? read.separator : '*',
    tls: tls === 'insecure' || tls === 'off' ? tls : 'verify',
    ca: typeof ca === 'string' ? ca : undefined,
    connections: typeof connections === 'number' ? connections : undefined,
    programs: typeof programs === 'number' ? programs : undefined,
    timeout: typeof timeout === 'number' ? timeout : undefined,
  });
}
