/** Reads MAILSTORE_URL: our own store, or an IMAP server with options in the URL's query. */
import { imapServer, type Server } from './parse-urls.ts';
import {
  filePath,
  fit,
  oneOf,
  type Parse,
  type Reading,
  unfit,
  wholeNumber,
} from './parse-values.ts';

/** How an IMAP server is used; what is undefined has the mail store's own default. */
export interface ImapOptions {
  /** How the master's login opens an account: `account*master`, or SASL PLAIN for another. */
  readonly auth: 'master' | 'plain';
  /** Between account and master in a user name. */
  readonly separator: string;
  /** `verify` the certificate, take any (`insecure`), or no TLS at all (`off`, imap: only). */
  readonly tls: 'verify' | 'insecure' | 'off';
  /** PEM file of the authority that the certificate comes from. */
  readonly ca: string | undefined;
  /** Connections in all. */
  readonly connections: number | undefined;
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
  // With any of these behind it, that `?` may be part of a password.
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
      return unfit(`no other options than ${Object.keys(readers).join(', ')}`, 'another');
    }
    const reading: Reading<string | number> = readers[name](text);
    if (!reading.fits) return unfit(`${name} to be ${reading.expected}`, 'another value');
    read[name] = reading.value;
  }
  const { auth, tls, ca, connections, timeout } = read;
  return fit({
    auth: auth === 'plain' ? 'plain' : 'master',
    separator: typeof read.separator === 'string' ? read.separator : '*',
    tls: tls === 'insecure' || tls === 'off' ? tls : 'verify',
    ca: typeof ca === 'string' ? ca : undefined,
    connections: typeof connections === 'number' ? connections : undefined,
    timeout: typeof timeout === 'number' ? timeout : undefined,
  });
}
