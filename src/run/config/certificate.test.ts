import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connect, createSecureContext, createServer, type TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import { type Certificate, ConfigError, loadCertificate } from './config.ts';

const parent = mkdtempSync(join(tmpdir(), 'postroom-certificate-'));
after(() => rmSync(parent, { recursive: true }));
const newFolder = () => mkdtempSync(join(parent, 'data-'));
const hostname = 'mail.example.com';

async function refusalOf(cert: string, key: string): Promise<readonly string[]> {
  try {
    await loadCertificate({ cert, key, dataDir: newFolder(), hostname });
    return [];
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.lines;
  }
}

/** Whether a client that trusts the certificate alone accepts the server under its name. */
async function isTrustedAs(name: string, { cert, key }: Certificate): Promise<boolean> {
  const server = createServer({ cert, key });
  server.on('tlsClientError', () => undefined);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const client: TLSSocket = connect({
    host: '127.0.0.1',
    port: address.port,
    servername: name,
    ca: cert,
  });
  try {
    await once(client, 'secureConnect');
    return client.authorized;
  } catch {
    return false;
  } finally {
    client.destroy();
    server.close();
  }
}

describe('a self-signed certificate', () => {
  let dataDir: string;
  let made: Certificate;
  before(async () => {
    dataDir = newFolder();
    made = await loadCertificate({ dataDir, hostname });
  });

  test('loads in a secure context', () => {
    createSecureContext({ cert: made.cert, key: made.key });
  });

  test('is for the host name and for no other', async () => {
    assert.equal(new X509Certificate(made.cert).subjectAltName, `DNS:${hostname}`);
    assert.equal(await isTrustedAs(hostname, made), true);
    assert.equal(await isTrustedAs('other.example.com', made), false);
  });

  test('is valid for ten years from now', () => {
    const { validFromDate, validToDate } = new X509Certificate(made.cert);
    assert.ok(validFromDate.getTime() < Date.now());
    const days = (validToDate.getTime() - Date.now()) / 86_400_000;
    assert.ok(days > 3648 && days <= 3650, `${days} days`);
  });

  test('is kept, its key for the owner alone', async () => {
    assert.equal(statSync(join(dataDir, 'tls')).mode & 0o777, 0o700);
    assert.equal(statSync(join(dataDir, 'tls/key.pem')).mode & 0o777, 0o600);
    assert.equal(readFileSync(join(dataDir, 'tls/cert.pem'), 'utf8'), made.cert);
    assert.deepEqual(await loadCertificate({ dataDir, hostname }), made);
  });

  test('is made for a host name of any length', async () => {
    const long = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.example`;
    const certificate = await loadCertificate({ dataDir: newFolder(), hostname: long });
    assert.equal(await isTrustedAs(long, certificate), true);
  });

  test('prevents the start where it cannot be written', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'tls'), '');
    await assert.rejects(loadCertificate({ dataDir: folder, hostname }), {
      name: 'ConfigError',
      message: `DATA_DIR: expected a writable folder, got "${folder}" (ENOTDIR: not a directory)`,
    });
  });
});

describe('a self-signed certificate is made again', () => {
  /** Replaces what was made, and returns both. */
  async function remade(
    spoil: (tls: string) => Promise<void> | void,
    later = hostname,
  ): Promise<[Certificate, Certificate]> {
    const dataDir = newFolder();
    const first = await loadCertificate({ dataDir, hostname });
    await spoil(join(dataDir, 'tls'));
    const second = await loadCertificate({ dataDir, hostname: later });
    assert.deepEqual(await loadCertificate({ dataDir, hostname: later }), second);
    return [first, second];
  }

  async function plantValid(tls: string, from: number, to: number): Promise<void> {
    const altNames = [{ type: 2 as const, value: hostname }];
    const planted = await generate([{ name: 'commonName', value: 'x' }], {
      algorithm: 'sha256',
      notBeforeDate: new Date(Date.now() + from),
      notAfterDate: new Date(Date.now() + to),
      extensions: [{ name: 'subjectAltName', altNames }],
    });
    writeFileSync(join(tls, 'cert.pem'), planted.cert);
    writeFileSync(join(tls, 'key.pem'), planted.private);
  }

  const hour = 3_600_000;

  test('when the host name changed', async () => {
    const [first, second] = await remade(() => undefined, 'mx.example.com');
    assert.notEqual(second.cert, first.cert);
    assert.equal(new X509Certificate(second.cert).subjectAltName, 'DNS:mx.example.com');
  });

  test('when it expired', async () => {
    const [, second] = await remade((tls) => plantValid(tls, -2 * hour, -hour));
    assert.ok(new X509Certificate(second.cert).validToDate.getTime() > Date.now() + hour);
  });

  test('when it is not valid yet', async () => {
    const [, second] = await remade((tls) => plantValid(tls, hour, 2 * hour));
    assert.ok(new X509Certificate(second.cert).validFromDate.getTime() < Date.now());
  });

  test('but not otherwise', async () => {
    const [first, second] = await remade((tls) => plantValid(tls, -hour, hour));
    assert.notEqual(second.cert, first.cert);
    assert.ok(new X509Certificate(second.cert).validToDate.getTime() < Date.now() + 2 * hour);
  });

  test('when its key is the key of another', async () => {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    const [, second] = await remade((tls) => writeFileSync(join(tls, 'key.pem'), pem));
    createSecureContext({ cert: second.cert, key: second.key });
  });

  for (const file of ['cert.pem', 'key.pem']) {
    test(`when ${file} is missing or damaged`, async () => {
      const [first, second] = await remade((tls) => rmSync(join(tls, file)));
      assert.notEqual(second.cert, first.cert);
      await remade((tls) => writeFileSync(join(tls, file), '-----BEGIN'));
    });
  }
});

describe("the operator's certificate", () => {
  const folder = newFolder();
  const path = (name: string) => join(folder, name);
  before(async () => {
    const given = await generate([{ name: 'commonName', value: hostname }], {
      algorithm: 'sha256',
    });
    const weak = await generate([{ name: 'commonName', value: hostname }], {
      algorithm: 'sha256',
      keySize: 512,
    });
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
    writeFileSync(path('cert.pem'), given.cert);
    writeFileSync(path('key.pem'), given.private);
    writeFileSync(path('weak-cert.pem'), weak.cert);
    writeFileSync(path('weak-key.pem'), weak.private);
    writeFileSync(path('other.pem'), other.export({ type: 'pkcs8', format: 'pem' }));
    const locked = {
      type: 'pkcs8',
      format: 'pem',
      cipher: 'aes-256-cbc',
      passphrase: 'x',
    } as const;
    writeFileSync(path('locked.pem'), other.export(locked));
  });

  test('is used unchanged', async () => {
    const dataDir = newFolder();
    const read = await loadCertificate({
      cert: path('cert.pem'),
      key: path('key.pem'),
      dataDir,
      hostname: 'of-no-matter.example.com',
    });
    assert.deepEqual(read, {
      cert: readFileSync(path('cert.pem'), 'utf8'),
      key: readFileSync(path('key.pem'), 'utf8'),
    });
  });

  test('that is missing', async () => {
    assert.deepEqual(await refusalOf(path('no.pem'), path('nor.pem')), [
      `TLS_CERT: expected a readable file, got "${path('no.pem')}" (ENOENT: no such file or directory)`,
      `TLS_KEY: expected a readable file, got "${path('nor.pem')}" (ENOENT: no such file or directory)`,
    ]);
  });

  test('whose files were swapped', async () => {
    assert.deepEqual(await refusalOf(path('key.pem'), path('cert.pem')), [
      `TLS_CERT: expected a certificate in PEM, got "${path('key.pem')}"`,
      `TLS_KEY: expected a private key in PEM without a passphrase, got "${path('cert.pem')}"`,
    ]);
  });

  test('whose key has a passphrase', async () => {
    assert.deepEqual(await refusalOf(path('cert.pem'), path('locked.pem')), [
      `TLS_KEY: expected a private key in PEM without a passphrase, got "${path('locked.pem')}"`,
    ]);
  });

  test('whose key is the key of another', async () => {
    assert.deepEqual(await refusalOf(path('cert.pem'), path('other.pem')), [
      `TLS_KEY: expected the key of the certificate in TLS_CERT, got "${path('other.pem')}" (the key of another certificate)`,
    ]);
  });

  test('that TLS does not accept', async () => {
    const [line, ...others] = await refusalOf(path('weak-cert.pem'), path('weak-key.pem'));
    assert.deepEqual(others, []);
    assert.match(
      line ?? '',
      /^TLS_CERT: expected a certificate that TLS accepts, got ".*" \(.*small.*\)$/,
    );
  });
});
