import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const pathOf = (name: string) => fileURLToPath(new URL(`certificate/${name}.pem`, import.meta.url));

/**
 * Settings with a certificate for `mail.test` that nobody has signed, valid until 2126. To make one
 * takes a start a third of a second. The key is public: it is for tests alone.
 */
export const CERTIFICATE = { TLS_CERT: pathOf('cert'), TLS_KEY: pathOf('key') };

/**
 * One of two certificates, each for `localhost`, `hooks.test` and `imap.example`, its own authority, and valid until 2126.
 * To load what makes one, and to make it, takes half a second. The keys are public: they are for tests alone.
 */
export function readCertificate(name: 'one' | 'other') {
  const read = (file: string) => readFileSync(pathOf(file), 'utf8');
  return { cert: read(name), key: read(`${name}-key`) };
}

/** Settings with which the service makes its own. */
export const NO_CERTIFICATE = { TLS_CERT: '', TLS_KEY: '' };

/** Settings with a new certificate for `localhost` in a folder: for programs that compare the name. */
export async function makeCertificate(folder: string): Promise<typeof CERTIFICATE> {
  const made = { TLS_CERT: join(folder, 'cert.pem'), TLS_KEY: join(folder, 'key.pem') };
  const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const files = ['-keyout', made.TLS_KEY, '-out', made.TLS_CERT];
  const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...files, ...name];
  await promisify(execFile)('openssl', request);
  return made;
}
