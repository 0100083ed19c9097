/** The files in which mail programs look up the servers of an address: Thunderbird's, Outlook's and Apple's. */
import { createHash } from 'node:crypto';

export interface ProgramServer {
  readonly host: string;
  readonly port: number;
  /** Whether a connection begins with TLS; by STARTTLS where not. */
  readonly isSecure: boolean;
}

/** The servers that are switched on, those that begin with TLS first: programs take the first that they can use. */
export interface ProgramServers {
  readonly imap: readonly ProgramServer[];
  readonly smtp: readonly ProgramServer[];
}

const XML = '<?xml version="1.0" encoding="UTF-8"?>';

/**
 * Thunderbird's autoconfig, version 1.1. It puts the address of its user in place of `%EMAILADDRESS%` itself: so the
 * answer is the same for every address.
 *
 * @param domain of the address; undefined where it is unknown
 */
export function writeAutoconfig(
  { imap, smtp }: ProgramServers,
  hostname: string,
  domain = '%EMAILDOMAIN%',
): string {
  const server = (name: string, type: string, { host, port, isSecure }: ProgramServer) =>
    element(`${name} type="${type}"`, [
      text('hostname', host),
      text('port', String(port)),
      text('socketType', isSecure ? 'SSL' : 'STARTTLS'),
      text('authentication', 'password-cleartext'),
      text('username', '%EMAILADDRESS%'),
    ]);
  const provider = element(`emailProvider id="${escapeXml(hostname)}"`, [
    text('domain', domain),
    text('displayName', hostname),
    ...imap.map((one) => server('incomingServer', 'imap', one)),
    ...smtp.map((one) => server('outgoingServer', 'smtp', one)),
  ]);
  return `${XML}\n${element('clientConfig version="1.1"', [provider])}\n`;
}

const AUTODISCOVER = 'http://schemas.microsoft.com/exchange/autodiscover';

/** Outlook's autodiscover, as it is for servers other than Exchange. @param address undefined where it is unknown */
export function writeAutodiscover({ imap, smtp }: ProgramServers, address?: string): string {
  const protocol = (type: string, { host, port, isSecure }: ProgramServer) =>
    element('Protocol', [
      text('Type', type),
      text('Server', host),
      text('Port', String(port)),
      text('DomainRequired', 'off'),
      ...(address === undefined ? [] : [text('LoginName', address)]),
      text('SPA', 'off'),
      text('SSL', isSecure ? 'on' : 'off'),
      text('Encryption', isSecure ? 'SSL' : 'TLS'),
      text('AuthRequired', 'on'),
    ]);
  const account = element('Account', [
    text('AccountType', 'email'),
    text('Action', 'settings'),
    ...imap.slice(0, 1).map((one) => protocol('IMAP', one)),
    ...smtp.slice(0, 1).map((one) => protocol('SMTP', one)),
  ]);
  const response = element(`Response xmlns="${AUTODISCOVER}/outlook/responseschema/2006a"`, [
    account,
  ]);
  return `${XML}\n${element(`Autodiscover xmlns="${AUTODISCOVER}/responseschema/2006"`, [response])}\n`;
}

export interface ProfileAccount {
  readonly address: string;
  readonly displayName: string;
}

const DOCTYPE =
  '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">';

/** Apple's configuration profile of a mail account, without a password: the device asks for it. */
export function writeMobileconfig(
  [imap, smtp]: readonly [ProgramServer, ProgramServer],
  { address, displayName }: ProfileAccount,
): string {
  // The same for each download: a device replaces the profile that it has.
  const identifier = `postroom.${createHash('sha256').update(address).digest('hex').slice(0, 32)}`;
  const payload = (type: string, name: string) => ({
    PayloadType: type,
    PayloadVersion: 1,
    PayloadIdentifier: name,
    PayloadUUID: uuidOf(name),
    PayloadDisplayName: address,
  });
  const server = (kind: string, { host, port }: ProgramServer) => ({
    [`${kind}MailServerAuthentication`]: 'EmailAuthPassword',
    [`${kind}MailServerHostName`]: host,
    [`${kind}MailServerPortNumber`]: port,
    [`${kind}MailServerUseSSL`]: true,
    [`${kind}MailServerUsername`]: address,
  });
  const account = {
    ...payload('com.apple.mail.managed', `${identifier}.account`),
    EmailAccountType: 'EmailTypeIMAP',
    EmailAccountName: displayName,
    EmailAccountDescription: address,
    EmailAddress: address,
    ...server('Incoming', imap),
    ...server('Outgoing', smtp),
    OutgoingPasswordSameAsIncomingPassword: true,
  };
  const profile = { ...payload('Configuration', identifier), PayloadContent: [account] };
  return `${XML}\n${DOCTYPE}\n${element('plist version="1.0"', [plistValue(profile)])}\n`;
}

type PlistValue =
  | string
  | number
  | boolean
  | readonly PlistValue[]
  | { readonly [key: string]: PlistValue };

function plistValue(value: PlistValue): string {
  if (typeof value === 'string') return text('string', value);
  if (typeof value === 'number') return text('integer', String(value));
  if (typeof value === 'boolean') return value ? '<true/>' : '<false/>';
  if (isList(value)) return element('array', value.map(plistValue));
  const members = Object.entries(value).flatMap(([key, one]) => [
    text('key', key),
    plistValue(one),
  ]);
  return element('dict', members);
}

function isList(value: object): value is readonly PlistValue[] {
  return Array.isArray(value);
}

/** A UUID of a name (RFC 9562 section 5.8). */
function uuidOf(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
  ];
  return [...parts, hex.slice(20, 32)].join('-');
}

/** @param opening its name, and its attributes */
function element(opening: string, content: readonly string[]): string {
  const [name] = opening.split(' ');
  const lines = content.flatMap((one) => one.split('\n')).map((line) => `  ${line}`);
  return [`<${opening}>`, ...lines, `</${name}>`].join('\n');
}

function text(name: string, content: string): string {
  return `<${name}>${escapeXml(content)}</${name}>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Also without characters that XML cannot have. */
function escapeXml(content: string): string {
  return content
    .toWellFormed()
    .replace(/[\u0000-\u0008\u000b-\u001f\ufffe\uffff]/g, '')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
