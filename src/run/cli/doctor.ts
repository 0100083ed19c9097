/** `postroom doctor`: checks everything around the service that mail depends on, and says what to do. */

import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { when } from '../../platform/errors/errors.ts';
import { firstOnDisks, isMissing } from '../../platform/files/files.ts';
import { DAY_MS } from '../../platform/time/time.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import { ownPreface } from '../../protocols/smtp-client/smtp-client.ts';
import {
  type Config,
  ConfigError,
  publicUrlOf,
  readConfig,
  refuseUnfitCertificate,
} from '../config/config.ts';
import { checkRelay } from './check-relay.ts';
import { checkSpamFilter } from './check-spam-filter.ts';
import {
  CONNECT_MS,
  checkBucket,
  checkDatabase,
  checkDisk,
  checkRedis,
  type Finding,
  failed,
  ok,
  reasonOf,
  type Verdict,
  warning,
} from './check-stores.ts';
import { checkTokenKeys } from './check-token-keys.ts';
import { CommandFailed, type CommandParts, helpText, report } from './command.ts';
import { openToRead } from './read-database.ts';

/** For a question to DNS, in milliseconds, for each of two attempts. */
const DNS_TIMEOUTS = { first: 2_000, later: 2_000 };

const HELP = `
Run it as the user of the service, on its machine. With --reach, the command connects to port 25 of a mail server of
that domain, to check whether mail can be sent; it sends nothing. The exit code is 1 if a check failed.`;

export function doctorCommand(parts: CommandParts): Command {
  return new Command('doctor')
    .description(
      'checks DNS, ports, certificate, clock, disk, permissions, database, Redis, bucket, relay, spam filter and mail server',
    )
    .option('--reach <domain>', 'tries whether the mail servers of a domain can be reached')
    .option('--json', 'prints the result as JSON')
    .addHelpText('after', helpText(HELP))
    .action(async ({ json, reach }: { json?: true; reach?: string }) => {
      const findings = await examine(readConfig(process.env), parts, reach);
      const failures = findings.filter(({ result }) => result === 'failed').length;
      const width = Math.max(...findings.map(({ check }) => check.length));
      const lines = findings.map((finding) => describe(finding, width));
      report(json, { ok: failures === 0, findings }, lines.join('\n'));
      if (failures > 0) throw new CommandFailed(`${failures} of ${findings.length} checks failed`);
    });
}

function describe({ check, result, detail, advice }: Finding, width: number): string {
  const line = `${result.padEnd(7)}  ${check.padEnd(width)}  ${detail}`;
  return advice === undefined ? line : `${line}\n${' '.repeat(9)}${advice}`;
}

const checkNames = (misspelt: readonly string[]) =>
  warning(misspelt.join(' '), 'correct the name: the line is ignored');

/** Checks all things at once: it takes as long as the slowest. */
async function examine(
  config: Config,
  parts: CommandParts,
  reach: string | undefined,
): Promise<Finding[]> {
  const dns = new DnsResolver({ servers: config.dns.servers, timeouts: DNS_TIMEOUTS });
  const { mailHostname: host, http, smtp, outbound, mailstore } = config;
  const service = checkService(publicUrlOf(http.host, http.port));
  const { bucket, folder, spool } = config.bodies;
  const [, other] = await firstOnDisks([config.dataDir, bucket ? spool : folder]);
  const checks: Record<string, () => Promise<Verdict>> = {
    ...(config.misspelt.length > 0 && { '.env': async () => checkNames(config.misspelt) }),
    'data folder': () => checkFolder(config.dataDir),
    ...(!bucket && { 'folder of bodies': () => checkFolder(folder) }),
    disk: () => checkDisk(config.dataDir, config.database),
    ...(other !== undefined && { 'disk of bodies': () => checkDisk(other, config.database) }),
    database: () => checkDatabase(config),
    clock: checkClock,
    'service (HTTP)': () => service,
    'SMTP port': () => checkSmtp(smtp, service),
    ...programChecks(config, service),
    certificate: () => checkCertificate(config),
    'DNS: resolver': () => checkResolver(dns, config.dns.servers),
    [`DNS: ${host}`]: () => checkHost(dns, host),
    [`DNS: ${config.spfInclude}`]: () => checkSpf(dns, config.spfInclude),
  };
  // Postroom itself speaks no TLS over HTTP: a proxy does.
  if (http.publicUrl.startsWith('https:')) checks['reverse proxy'] = async () => checkProxy(http);
  const { redis } = config;
  if (redis) checks.Redis = () => checkRedis(redis);
  if (bucket) checks.bucket = () => checkBucket(config);
  const { relay } = outbound;
  if (relay) checks.relay = () => checkRelay(relay, host);
  const { rspamdUrl } = config.senderChecks;
  if (rspamdUrl) checks['spam filter'] = () => checkSpamFilter(rspamdUrl);
  const { jwksUrl } = config.jwt;
  if (jwksUrl !== undefined) checks['token keys'] = () => checkTokenKeys(jwksUrl);
  if (reach !== undefined)
    checks[`mail to ${reach}`] = () => checkReach(dns, reach, outbound.mxPort);
  if (mailstore.kind === 'imap') {
    checks['mail server'] = async () => {
      // The database has a check of its own.
      const addresses = await someAddresses(config).catch(() => []);
      const said = await parts.logInToMailServer(config, addresses);
      if (said) return failed(said, 'look at MAILSTORE_URL: host, port, login, tls');
      const at = `${mailstore.host}:${mailstore.port}`;
      if (addresses.length > 0) return ok(`the login at ${at} works`);
      return warning(`${at} answers; no account was found to sign in for`, 'make one first');
    };
  }
  const all = Object.entries(checks).map(async ([check, look]) => ({
    check,
    ...(await look().catch((error: unknown) =>
      failed(
        error instanceof Error ? error.message : String(error),
        'correct this, then run doctor again',
      ),
    )),
  }));
  const findings = await Promise.all(all);
  dns.close();
  return findings;
}

/** One account may be unknown to the mail server. */
const ACCOUNTS_TRIED = 3;

async function someAddresses(config: Config): Promise<string[]> {
  const { findSomeActive } = await import('../../tenants/accounts/accounts.ts');
  await using database = await openToRead(config);
  const accounts = await findSomeActive(database.read, ACCOUNTS_TRIED);
  return accounts.map(({ address }) => address);
}

async function checkFolder(path: string): Promise<Verdict> {
  try {
    const { mode, uid } = await stat(path);
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    const own = process.getuid?.();
    if (own !== undefined && uid !== own) {
      return warning(
        `${path} belongs to user ${uid}, but this process runs as user ${own}`,
        'run doctor as the user of the service',
      );
    }
    if ((mode & 0o077) === 0) return ok(`${path} is writable, and other users cannot read it`);
    return warning(`${path} is open to other users`, `chmod 700 ${path}`);
  } catch (error) {
    if (isMissing(error)) return warning(`${path} is not there yet`, 'the first start makes it');
    return failed(
      `${path} cannot be written to: ${String(error)}`,
      'make the user of the service its owner',
    );
  }
}

/** Whether the clock is synchronized: signatures, tokens and TLS depend on it. */
async function checkClock(): Promise<Verdict> {
  const now = new Date().toISOString();
  const advice = 'let systemd-timesyncd, chrony or ntpd set it';
  try {
    const show = ['show', '--property=NTPSynchronized', '--value'];
    const { stdout } = await promisify(execFile)('timedatectl', show, { timeout: CONNECT_MS });
    if (stdout.trim() === 'yes') return ok(`it is ${now}, set by a time server`);
    return warning(`it is ${now}, and no time server sets it`, advice);
  } catch {
    return warning(`it is ${now}; it is unknown whether a time server sets it`, advice);
  }
}

async function checkService(url: string): Promise<Verdict> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(CONNECT_MS) });
    const text = (await answer.text()).slice(0, 300);
    const said = `${url}/readyz says ${answer.status}`;
    if (!answer.ok) return failed(`${said}: ${text}`, 'see the log of the service');
    if (!text.includes('degraded')) return ok(said);
    return warning(
      `${said}: ${text}`,
      'some work waits for what it names: see the log of the service',
    );
  } catch (error) {
    const reason = error instanceof Error ? error.cause : undefined;
    if (reason instanceof Error && 'code' in reason && reason.code === 'ECONNREFUSED') {
      return notStarted(url, 'start the service; if it runs, look at HOST and PORT');
    }
    return warning(`nothing answers at ${url}`, 'start the service, or look at HOST and PORT');
  }
}

const notStarted = (location: string, advice: string) =>
  warning(`not started: nothing listens at ${location}`, advice);

function checkProxy({ publicUrl, trustProxy }: Config['http']): Verdict {
  if (trustProxy.length > 0) return ok(`clients are named by ${trustProxy.join(', ')}`);
  return warning(
    `PUBLIC_URL is ${publicUrl}, and TRUST_PROXY names no proxy: all clients behind it share one rate limit`,
    'set TRUST_PROXY to the address from which the proxy connects',
  );
}

/** @param service what was found of the service by HTTP */
async function checkSmtp(smtp: Config['smtp'], service: Promise<Verdict>): Promise<Verdict> {
  const { port, proxyNetworks } = smtp;
  if (port === 0)
    return warning('SMTP_PORT=0: no mail comes in by SMTP', 'set it to 25 to receive mail');
  const found = await checkListener(smtp, port, 'SMTP_HOST and SMTP_PORT', service);
  if (found.result !== 'ok' || port === 25) return found;
  if (proxyNetworks.length > 0) {
    return ok(`${found.detail}; other mail servers connect to the load balancer in front of it`);
  }
  return warning(
    `${found.detail}, which is not port 25`,
    'other mail servers connect to port 25: set SMTP_PORT=25, or forward port 25 to this port',
  );
}

/** The ports of mail programs that are not switched off. @param service as above */
function programChecks({ imap, submission }: Config, service: Promise<Verdict>) {
  const ports = [
    { setting: 'IMAPS_PORT', of: imap, port: imap.tlsPort, isSecure: true, greeting: '* OK' },
    { setting: 'IMAP_PORT', of: imap, port: imap.port, isSecure: false, greeting: '* OK' },
    { setting: 'SUBMISSIONS_PORT', of: submission, port: submission.tlsPort, isSecure: true },
    { setting: 'SUBMISSION_PORT', of: submission, port: submission.port, isSecure: false },
  ];
  const checks = ports.flatMap(({ setting, of, port, ...how }) =>
    port === 0 ? [] : [[setting, () => checkListener(of, port, setting, service, how)] as const],
  );
  return Object.fromEntries(checks);
}

/** A port of the service, which may not have been started. */
async function checkListener(
  { host, proxyNetworks }: Pick<Config['smtp'], 'host' | 'proxyNetworks'>,
  port: number,
  setting: string,
  service: Promise<Verdict>,
  how: Banner = {},
): Promise<Verdict> {
  const { hostname } = new URL(publicUrlOf(host, port));
  const preface = ownPreface(hostname.replace(/^\[|\]$/g, ''), proxyNetworks);
  const found = await checkBanner(hostname, port, setting, { preface, ...how });
  if (!found.detail.endsWith('(ECONNREFUSED)')) return found;
  const location = `${hostname}:${port}`;
  return (await service).result === 'warning'
    ? notStarted(location, 'start the service')
    : failed(
        `the service runs, but nothing listens at ${location}`,
        `restart the service if ${setting} was changed; its log says why it does not listen`,
      );
}

interface Banner {
  /** Sent first, if the server expects it. */
  readonly preface?: string | undefined;
  /** Whether TLS comes before the greeting; the certificate has a check of its own. */
  readonly isSecure?: boolean;
  /** How it begins. */
  readonly greeting?: string | undefined;
}

/** Connects to a mail server, and reads its greeting (RFC 5321 section 3.1). */
async function checkBanner(
  host: string,
  port: number,
  setting: string,
  { preface, isSecure = false, greeting: expected = '220' }: Banner = {},
): Promise<Verdict> {
  const plain = connect({ host: host.replace(/^\[|\]$/g, ''), port });
  const location = `${host}:${port}`;
  plain.write(preface ?? '');
  const socket = isSecure ? connectTls({ socket: plain, rejectUnauthorized: false }) : plain;
  try {
    const signal = AbortSignal.timeout(CONNECT_MS);
    socket.setEncoding('latin1');
    const ended = once(socket, 'close', { signal }).then(() => {
      throw new Error('it closed the connection');
    });
    const [greeting] = await Promise.race([once(socket, 'data', { signal }), ended]);
    const line =
      String(greeting)
        .split('\r\n')[0]
        ?.replace(/[^ -~]/g, '?') ?? '';
    return line.startsWith(expected)
      ? ok(`${location} says "${line}"`)
      : failed(`${location} says "${line}"`, `look at ${setting}`);
  } catch (error) {
    return failed(
      `${location} gives no greeting (${reasonOf(error)})`,
      `look at ${setting}, and at firewalls`,
    );
  } finally {
    socket.destroy();
    plain.destroy();
  }
}

/** Days before the end of a certificate. */
const SOON = 14;

async function checkCertificate(config: Config): Promise<Verdict> {
  const { tls, dataDir, mailHostname, imap, submission } = config;
  const unfit = await refuseUnfitCertificate(tls).catch((error: unknown) => error);
  if (unfit instanceof ConfigError) {
    return failed(unfit.lines.join('; '), 'correct it: the service does not start with it');
  }
  const path = tls.cert ?? join(dataDir, 'tls', 'cert.pem');
  const isOurs = (error: unknown) => isMissing(error) && !tls.cert;
  const text = await readFile(path).catch(when(isOurs, undefined));
  if (!text) return warning('there is none yet', 'the first start makes one');
  const certificate = new X509Certificate(text);
  const days = Math.floor((certificate.validToDate.getTime() - Date.now()) / DAY_MS);
  const said = `${path} is valid for ${days} more days`;
  if (days < 0) return failed(`${path} expired ${-days} days ago`, 'renew it');
  if (!certificate.checkHost(mailHostname)) {
    return failed(`${path} does not name ${mailHostname}`, 'get one for MAIL_HOSTNAME');
  }
  if (tls.cert && days < SOON) return warning(said, 'check that your ACME client renews it');
  if (!certificate.verify(certificate.publicKey)) return ok(said);
  const ports = [imap.tlsPort, imap.port, submission.tlsPort, submission.port];
  if (ports.some((port) => port > 0)) {
    return warning(
      `${path} is self-signed: mail programs refuse it, or ask their user`,
      'set TLS_CERT and TLS_KEY to a certificate that they trust',
    );
  }
  // Mail servers encrypt to each other whatever the certificate is (RFC 7435).
  return ok(`${said}; it is self-signed, which is enough between mail servers`);
}

async function checkResolver(dns: DnsResolver, servers: readonly string[]): Promise<Verdict> {
  const asked = servers.length > 0 ? servers.join(', ') : 'those of the system';
  // A name that DNS always has; any answer will do.
  const answer = await dns.lookup('org', 'MX');
  if (answer.kind !== 'unanswered') return ok(`answers come from ${asked}`);
  return failed(
    `no resolver answers (${answer.reason}; ${asked})`,
    'until DNS works, mail is accepted unchecked, domains do not become active and no mail is sent: check DNS_SERVERS and /etc/resolv.conf',
  );
}

async function checkHost(dns: DnsResolver, host: string): Promise<Verdict> {
  if (host === 'mail.localhost') {
    return warning('MAIL_HOSTNAME is not set', 'set it to the name of this machine in DNS');
  }
  const [four, six] = await Promise.all([dns.lookup(host, 'A'), dns.lookup(host, 'AAAA')]);
  if (four.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  const addresses = [four, six].flatMap((answer) =>
    answer.kind === 'records' ? answer.records : [],
  );
  if (addresses.length === 0) {
    return failed(`${host} has no address`, 'publish an A record: all MX records lead there');
  }
  return ok(`${host} is ${addresses.join(', ')}`);
}

async function checkSpf(dns: DnsResolver, name: string): Promise<Verdict> {
  const answer = await dns.lookup(name, 'TXT');
  if (answer.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  const records = answer.kind === 'records' ? answer.records : [];
  const spf = records.find((text) => /^v=spf1(?: |$)/i.test(text));
  if (spf !== undefined) return ok(spf.replace(/[^ -~]/g, '?'));
  const advice = `publish "v=spf1 ip4:<your address> -all" there: without it the SPF of every domain fails`;
  return name.endsWith('.localhost')
    ? warning('SPF_INCLUDE is not set', 'set MAIL_HOSTNAME')
    : failed(`${name} has no SPF record`, advice);
}

async function checkReach(dns: DnsResolver, domain: string, port: number): Promise<Verdict> {
  const answer = await dns.lookup(domain, 'MX');
  if (answer.kind === 'unanswered') return warning('not checked: no resolver answers', 'see above');
  // Without an MX record, mail goes to the domain's own address (RFC 5321 section 5.1).
  const exchanges =
    answer.kind === 'records' ? [...answer.records] : [{ preference: 0, exchange: domain }];
  const [first] = exchanges.sort((a, b) => a.preference - b.preference);
  if (!first?.exchange) return warning(`${domain} accepts no mail`, 'try another domain');
  const found = await checkBanner(first.exchange, port, 'MX_PORT');
  if (found.result !== 'failed') return found;
  return failed(
    found.detail,
    'many providers block outgoing port 25: ask yours to open it, or set SMTP_RELAY_URL',
  );
}
