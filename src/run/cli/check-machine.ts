/** What `postroom doctor` checks of the machine: folders, clock, and the certificate. */
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { constants } from 'node:fs';
import { access, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { many, when } from '../../platform/errors/errors.ts';
import { isMissing } from '../../platform/files/files.ts';
import { DAY_MS } from '../../platform/time/time.ts';
import { type Config, ConfigError, refuseUnfitCertificate } from '../config/config.ts';
import { CONNECT_MS, failed, ok, type Verdict, warning } from './check-stores.ts';

export async function checkFolder(path: string): Promise<Verdict> {
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
export async function checkClock(): Promise<Verdict> {
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

/** Days before the end of a certificate. */
const SOON = 14;

export async function checkCertificate(config: Config): Promise<Verdict> {
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
  const said = `${path} is valid for ${many(days, 'more day')}`;
  if (days < 0) return failed(`${path} expired ${many(-days, 'day')} ago`, 'renew it');
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
