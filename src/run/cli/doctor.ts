/** `postroom doctor`: checks everything around the service that mail depends on, and says what to do. */
import { Command } from 'commander';
import { many } from '../../platform/errors/errors.ts';
import { firstOnDisks } from '../../platform/files/files.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import { type Config, publicUrlOf, readConfig } from '../config/config.ts';
import { checkHost, checkReach, checkResolver, checkSpf } from './check-dns.ts';
import { checkProxy, checkService, checkSmtp, programChecks } from './check-listeners.ts';
import { checkCertificate, checkClock, checkFolder } from './check-machine.ts';
import { checkLmtp, checkRelay } from './check-next-servers.ts';
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
    const { deliverTo } = mailstore;
    if (deliverTo) checks['mail server (LMTP)'] = () => checkLmtp(deliverTo, host);
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

/** Asks Rspamd whether it is there. @param url of RSPAMD_URL */
async function checkSpamFilter(url: string): Promise<Verdict> {
  const wrong = (said: string) =>
    failed(
      `${url}: ${said}`,
      'start Rspamd, and let RSPAMD_URL name its normal worker (port 11333): until it answers, mail is accepted without it',
    );
  try {
    const { ok: isThere, status } = await fetch(`${url}/ping`, {
      signal: AbortSignal.timeout(CONNECT_MS),
    });
    return isThere ? ok(`${url} answers`) : wrong(`the answer is ${status}`);
  } catch (error) {
    // `fetch` says only that it failed, and has the reason in its cause.
    return wrong(reasonOf(error instanceof TypeError ? error.cause : error));
  }
}

/** Fetches the keys of mailbox tokens. @param url of JWT_JWKS_URL */
async function checkTokenKeys(url: string): Promise<Verdict> {
  const wrong = (said: string) =>
    failed(
      `${url}: ${said}`,
      'let JWT_JWKS_URL name a JWK set (RFC 7517): until it does, requests with tokens that others signed are answered 503',
    );
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(CONNECT_MS) });
    if (!answer.ok) return wrong(`the answer is ${answer.status}`);
    const { keys }: { keys?: unknown } = Object(await answer.json());
    if (!Array.isArray(keys) || keys.length === 0) return wrong('the answer has no keys');
    return ok(`${url} has ${many(keys.length, 'key')}`);
  } catch (error) {
    if (error instanceof SyntaxError) return wrong('the answer is no JSON');
    // `fetch` says only that it failed, and has the reason in its cause.
    return wrong(reasonOf(error instanceof TypeError ? error.cause : error));
  }
}
