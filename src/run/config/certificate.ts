/**
 * The certificate of STARTTLS: the operator's, or a self-signed one of our own.
 *
 * Ours is in `DATA_DIR/tls/` as `cert.pem` and `key.pem` (mode 0600). Nothing in it has to last, so it is made again
 * whenever it does not fit.
 */
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { ensureFolder, replaceDurably } from '../../platform/files/files.ts';
import { DAY_MS } from '../../platform/time/time.ts';
import { ConfigError, explainFileError, problemLine, quote } from './config-error.ts';
import { dataDirError } from './data-folder.ts';

export interface CertificateOptions {
  /** Path of the certificate, its chain after it, in PEM; together with `key`. */
  readonly cert?: string | undefined;
  /** Path of its private key, in PEM without a passphrase. */
  readonly key?: string | undefined;
  /** Absolute path of the data folder, which must exist. */
  readonly dataDir: string;
  /** The name a self-signed certificate is for. */
  readonly hostname: string;
}

/** Certificate and private key as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const selfSignedDays = 3650;

/**
 * Reads the operator's certificate where `cert` and `key` are given; else ours, which is made at the first call, and
 * again when the host name has changed or it is not valid now.
 *
 * @throws ConfigError for files that cannot be read or used, and when ours cannot be written
 */
export async function loadCertificate(options: CertificateOptions): Promise<Certificate> {
  if (options.cert !== undefined && options.key !== undefined) {
    return await readGivenCertificate(options.cert, options.key);
  }
  const folder = join(options.dataDir, 'tls');
  const kept = await readOwnCertificate(folder, options.hostname);
  if (kept !== undefined) return kept;

  const made = await makeCertificate(options.hostname);
  try {
    await ensureFolder(folder);
    // A crash in between leaves two halves that do not belong together; the next start notices it.
    await replaceDurably(join(folder, 'key.pem'), made.key, 0o600);
    await replaceDurably(join(folder, 'cert.pem'), made.cert, 0o644);
  } catch (error) {
    throw dataDirError(options.dataDir, error);
  }
  return made;
}

/**
 * Refuses files of TLS_CERT and TLS_KEY that cannot be used, before a start has opened or made anything.
 *
 * @throws ConfigError
 */
export async function refuseUnfitCertificate({
  cert,
  key,
}: Pick<CertificateOptions, 'cert' | 'key'>): Promise<void> {
  if (cert !== undefined && key !== undefined) await readGivenCertificate(cert, key);
}

async function readGivenCertificate(certPath: string, keyPath: string): Promise<Certificate> {
  const lines: string[] = [];
  const cert = await readPem('TLS_CERT', certPath, lines);
  const key = await readPem('TLS_KEY', keyPath, lines);
  const certificate = cert === undefined ? undefined : parseCertificate(cert);
  const privateKey = key === undefined ? undefined : parseKey(key);
  if (cert !== undefined && certificate === undefined) {
    lines.push(problemLine('TLS_CERT', 'a certificate in PEM', quote(certPath)));
  }
  if (key !== undefined && privateKey === undefined) {
    const expected = 'a private key in PEM without a passphrase';
    lines.push(problemLine('TLS_KEY', expected, quote(keyPath)));
  }
  if (certificate && privateKey && !certificate.checkPrivateKey(privateKey)) {
    const found = `${quote(keyPath)} (the key of another certificate)`;
    lines.push(problemLine('TLS_KEY', 'the key of the certificate in TLS_CERT', found));
  }
  if (lines.length > 0 || cert === undefined || key === undefined) throw new ConfigError(lines);
  checkUsable(cert, key, certPath);
  return { cert, key };
}

/** TLS refuses more than the parsers do: keys that are too short, a broken chain. */
function checkUsable(cert: string, key: string, certPath: string): void {
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const reason = error instanceof Error ? error.message : 'unknown error';
    const found = `${quote(certPath)} (${reason})`;
    throw new ConfigError([problemLine('TLS_CERT', 'a certificate that TLS accepts', found)], {
      cause: error,
    });
  }
}

async function readPem(name: string, path: string, lines: string[]): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const found = `${quote(path)} (${explainFileError(error)})`;
    lines.push(problemLine(name, 'a readable file', found));
    return undefined;
  }
}

function parseCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function parseKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem);
  } catch {
    return undefined;
  }
}

/** @returns undefined where there is none, or one that no longer fits */
async function readOwnCertificate(
  folder: string,
  hostname: string,
): Promise<Certificate | undefined> {
  const [cert, key] = await Promise.all(
    ['cert.pem', 'key.pem'].map((name) => readFile(join(folder, name), 'utf8').catch(() => '')),
  );
  const certificate = parseCertificate(cert ?? '');
  const privateKey = parseKey(key ?? '');
  if (!cert || !key || !certificate || !privateKey) return undefined;
  const now = Date.now();
  const fits =
    certificate.checkPrivateKey(privateKey) &&
    certificate.subjectAltName === `DNS:${hostname}` &&
    certificate.validFromDate.getTime() <= now &&
    certificate.validToDate.getTime() > now;
  return fits ? { cert, key } : undefined;
}

async function makeCertificate(hostname: string): Promise<Certificate> {
  // Its ASN.1 libraries take long to load, and most starts don't need them.
  const { generate } = await import('selfsigned');
  const now = Date.now();
  const made = await generate([{ name: 'commonName', value: 'Postroom' }], {
    // RSA, since old mail servers that only know RSA would otherwise send in plaintext.
    keyType: 'rsa',
    keySize: 2048,
    algorithm: 'sha256',
    // From a day ago, since clocks of peers differ.
    notBeforeDate: new Date(now - DAY_MS),
    notAfterDate: new Date(now + selfSignedDays * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      // Only this name counts (RFC 9525 section 2); a common name has at most 64 characters.
      { name: 'subjectAltName', altNames: [{ type: 2, value: hostname }] },
    ],
  });
  return { cert: made.cert, key: made.private };
}
