/** What `postroom doctor` checks of the service itself: whether it answers at its ports. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ownPreface } from '../../protocols/smtp-client/smtp-client.ts';
import { type Config, publicUrlOf } from '../config/config.ts';
import { CONNECT_MS, failed, ok, reasonOf, type Verdict, warning } from './check-stores.ts';

export async function checkService(url: string): Promise<Verdict> {
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

export function checkProxy({ publicUrl, trustProxy }: Config['http']): Verdict {
  if (trustProxy.length > 0) return ok(`clients are named by ${trustProxy.join(', ')}`);
  return warning(
    `PUBLIC_URL is ${publicUrl}, and TRUST_PROXY names no proxy: all clients behind it share one rate limit`,
    'set TRUST_PROXY to the address from which the proxy connects',
  );
}

/** @param service what was found of the service by HTTP */
export async function checkSmtp(smtp: Config['smtp'], service: Promise<Verdict>): Promise<Verdict> {
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
export function programChecks({ imap, submission }: Config, service: Promise<Verdict>) {
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
export async function checkBanner(
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
