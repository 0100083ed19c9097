import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { generate } from 'selfsigned';
import { CERTIFICATE } from '../../../test/support/certificate.ts';
import type { Certificate } from '../config/config.ts';
import { followCertificate } from './follow-certificate.ts';

test('a certificate whose files change is used, and a broken one is not', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'postroom-follow-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  const [cert, key] = [join(dataDir, 'cert.pem'), join(dataDir, 'key.pem')];
  await copyFile(CERTIFICATE.TLS_CERT, cert);
  await copyFile(CERTIFICATE.TLS_KEY, key);
  const lines: string[] = [];
  const ends: Date[] = [];
  let isBroken: boolean | undefined;
  const log = (_: object, line: string) => lines.push(line);
  const followed = await followCertificate({
    cert,
    key,
    dataDir,
    hostname: 'mail.test',
    everyMs: 10,
    logger: { info: log, warn: log, error: log } as unknown as Parameters<
      typeof followCertificate
    >[0]['logger'],
    metrics: {
      setCertificateEnd: (end) => ends.push(end),
      setCertificateBroken(broken) {
        isBroken = broken;
      },
    },
  });
  t.after(() => followed.stop());
  const taken: Certificate[] = [];
  followed.follow((next) => taken.push(next));
  const until = async (isSo: () => boolean) => {
    while (!isSo()) await new Promise((done) => setTimeout(done, 5));
  };
  // In one step: the files may be read at any moment.
  const replace = async (file: string, text: string) => {
    await writeFile(`${file}.new`, text);
    await rename(`${file}.new`, file);
  };
  assert.equal(isBroken, false);

  // The way of an ACME client: one file after the other, so that for a moment they do not match.
  const made = await generate([{ name: 'commonName', value: 'new' }], { keySize: 2048 });
  await replace(cert, made.cert);
  await until(() => isBroken === true);
  assert.deepEqual(lines, ['the changed certificate cannot be read: the old one stays in use']);
  assert.equal(taken.length, 0);
  await replace(key, made.private);
  await until(() => taken.length === 1);
  assert.deepEqual([taken[0]?.cert, taken[0]?.key], [made.cert, made.private]);
  await until(() => isBroken === false);
  assert.notDeepEqual(ends.at(-1), ends[0]);
  assert.equal(lines.at(-1), 'the certificate files changed: STARTTLS uses the new certificate');

  await rm(cert);
  await until(() => isBroken === true);
  assert.equal(lines.length, 3, 'each problem is told once');
  assert.equal(taken.length, 1, 'the one in use stays');
});

test('a certificate that has ended is told at the start', async (t) => {
  const dataDir = await mkdtemp(join(tmpdir(), 'postroom-ended-'));
  t.after(() => rm(dataDir, { recursive: true, force: true }));
  const [cert, key] = [join(dataDir, 'cert.pem'), join(dataDir, 'key.pem')];
  const notAfterDate = new Date(Date.now() - 86_400_000);
  const made = await generate([{ name: 'commonName', value: 'old' }], {
    ...{ keySize: 2048, notBeforeDate: new Date(0), notAfterDate },
  });
  await writeFile(cert, made.cert);
  await writeFile(key, made.private);
  const lines: string[] = [];
  const log = (_: object, line: string) => lines.push(line);
  const followed = await followCertificate({
    ...{ cert, key, dataDir, hostname: 'mail.test' },
    logger: { info: log, warn: log, error: log } as unknown as Parameters<
      typeof followCertificate
    >[0]['logger'],
    metrics: { setCertificateEnd() {}, setCertificateBroken() {} },
  });
  followed.stop();
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /^the certificate has ended/);
});
